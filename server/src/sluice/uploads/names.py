"""File names as senders write them. A name never becomes part of a path."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from sluice.errors import Invalid
from sluice.kit.text import is_plain

MAX_BYTES: Final = 255
_SEPARATORS: Final = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class FileName:
    """`original` is what users see; `extension` is in lower case without its dot, empty if there is none."""

    original: str
    extension: str


def read_name(sent: str) -> FileName:
    """Return the last path part of `sent`, in NFC.

    Raise `Invalid` if it is empty, too long, or holds control characters.
    """
    original = unicodedata.normalize("NFC", _SEPARATORS.split(sent)[-1])
    if not is_plain(sent):
        raise Invalid("file: the file name holds a control character")
    if not original.strip(". "):
        raise Invalid(f"file: expected a file name, found {'nothing' if not original else 'only dots and spaces'}")
    if len(original.encode()) > MAX_BYTES:
        raise Invalid(f"file: the file name is longer than {MAX_BYTES} bytes")
    return FileName(original, extension_of(original))


def plain_extension(text: str) -> str:
    """Return an extension as it is compared: without its dot, in lower case."""
    return text.removeprefix(".").lower()


def extension_of(original: str) -> str:
    """Return the extension of an accepted name: in lower case, without its dot, empty if there is none.

    Dots and spaces at the end are ignored, as Windows does: that of `setup.exe. ` is `exe`.
    """
    stem, dot, extension = original.rstrip(". ").rpartition(".")
    return extension.lower() if dot and stem.strip(". ") else ""
