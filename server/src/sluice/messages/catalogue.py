"""The catalogues: sentences by key, and what each parameter of a sentence is."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

Param = int | float | str | Sequence[str]


class ParameterType(StrEnum):
    """The type of a parameter's raw value, which determines its wording."""

    BYTES = "bytes"  # an integer, shown as a size in units of 1,024
    COUNT = "count"  # an integer
    SECONDS = "seconds"  # a length of time: `10 min 5 s`
    WAIT = "wait"  # seconds from now: `in 5 minutes`
    EXTENSION = "extension"  # of a file name, without its dot
    EXTENSIONS = "extensions"  # a list of them, of which any one will do
    FORMAT = "format"  # the English name of a kind of file; `Catalogue.formats` translates it
    FORMATS = "formats"  # a list of them, of which any one will do
    NAME = "name"  # that a context gave to what it searches
    SENTENCE = "sentence"  # a sentence of an external check, as it came


# A parameter means the same in every sentence. `max_`, `min_` and `free_` are limits: shown, they are never rounded to
# more than is allowed.
PARAMETERS: Final[Mapping[str, ParameterType]] = MappingProxyType(
    {
        "size": ParameterType.BYTES,
        "max_size": ParameterType.BYTES,
        "min_size": ParameterType.BYTES,
        "free_size": ParameterType.BYTES,
        "count": ParameterType.COUNT,
        "max_count": ParameterType.COUNT,
        "width": ParameterType.COUNT,
        "min_width": ParameterType.COUNT,
        "max_width": ParameterType.COUNT,
        "height": ParameterType.COUNT,
        "min_height": ParameterType.COUNT,
        "max_height": ParameterType.COUNT,
        "window": ParameterType.SECONDS,
        "duration": ParameterType.SECONDS,
        "max_duration": ParameterType.SECONDS,
        "wait": ParameterType.WAIT,
        "extension": ParameterType.EXTENSION,
        "allowed": ParameterType.EXTENSIONS,
        "expected": ParameterType.FORMAT,
        "found": ParameterType.FORMAT,
        "formats": ParameterType.FORMATS,
        "name": ParameterType.NAME,
        "sentence": ParameterType.SENTENCE,
    }
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence before it is put into words: its key in the catalogues, and the raw values of its parameters."""

    key: str
    params: Mapping[str, Param] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sentences of one locale."""

    locale: str
    language: str
    """The name of the language in itself."""
    messages: Mapping[str, str]
    page: Mapping[str, str]
    """The words of the upload page and of `<sluice-upload>`, in the syntax of a sentence."""
    formats: Mapping[str, str]
    """English names of kinds of files, translated. Those that are not listed are the same everywhere: PDF, JPEG."""
    units: Mapping[str, str]
    """Sizes and times by unit, in the syntax of a sentence with the parameter `count`."""

    def to_json(self) -> dict[str, Any]:
        """Return the catalogue as its file has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def plain_key(key: str) -> str:
    """Return the key of the sentence without parameters for the same reason or outcome; every one has it."""
    return f"{key.partition('.')[0]}.plain"


@cache
def catalogue_of(locale: str) -> Catalogue:
    """Return the catalogue of one of `LOCALES`."""
    return Catalogue(**json.loads(files(__package__).joinpath(f"{locale}.json").read_text(encoding="utf-8")))
