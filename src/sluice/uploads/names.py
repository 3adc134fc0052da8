"""What a stranger named a file: what is kept of it, and its extension. The name never becomes part of a path."""

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
    """`original` is shown again; `extension` is lower case without its dot, empty when there is none."""

    original: str
    extension: str


def read_name(sent: str) -> FileName:
    """Answer the last path part of `sent`, in NFC; raises `Invalid` when it is no name (empty, control characters, too long)."""
    original = unicodedata.normalize("NFC", _SEPARATORS.split(sent)[-1])
    if not is_plain(sent):
        raise Invalid("file: the file name holds a control character")
    if not original.strip(". "):
        raise Invalid(f"file: expected a file name, found {'nothing' if not original else 'only dots and spaces'}")
    if len(original.encode()) > MAX_BYTES:
        raise Invalid(f"file: the file name is longer than {MAX_BYTES} bytes")
    return FileName(original, _extension(original))


def plain_extension(text: str) -> str:
    """Answer an extension as it is compared: without its dot, lower case."""
    return text.removeprefix(".").lower()


def _extension(original: str) -> str:
    # Windows drops trailing dots and spaces: `setup.exe. ` opens as `setup.exe`, so that is how it is judged.
    stem, dot, extension = original.rstrip(". ").rpartition(".")
    return extension.lower() if dot and stem.strip(". ") else ""
