"""What the content of a file is by its bytes, and what its name promises."""

from functools import cache
from typing import TYPE_CHECKING, Final

import pylibmagic  # noqa: F401  (puts the bundled library where python-magic looks for it)

from sluice_inspect.format import Format
from sluice_inspect.registry import candidates
from sluice_inspect.report import UNKNOWN_TYPE, is_content_type
from sluice_inspect.signatures import is_mail
from sluice_inspect.source import Source

if TYPE_CHECKING:
    import magic

TEXT: Final = "text"  # in FOREIGN: any content that is written in characters

# Extensions that no format of ours has, with the formats that may be found under them without being a mismatch.
# Extensions that are in no list promise nothing.
FOREIGN: Final[dict[str, frozenset[str]]] = {
    extension: frozenset(formats.split())
    for formats, extensions in {
        # Content of these formats is never one of ours: a PNG named .mp4 is a mismatch.
        "": "jxl psd wma mid midi wmv flv mpg mpeg cab iso exe dll msi",
        "pdf text": "ai eps ps",
        "text xml": "tsv ics vcf css js",
    }.items()
    for extension in extensions.split()
}

_LIBMAGIC_BYTES: Final = 16 * 1024
_PLAIN_TEXT_BYTES: Final = 4096
_TEXT_BYTES: Final = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F), *range(0x80, 0x100)])
# Media types of libmagic that say no more than that it does not know the content.
_VAGUE_TYPES: Final = ("application/x-empty", "application/x-data", "application/x-dosexec-fragment")


def extension_of(filename: str | None) -> str:
    """Return the last extension in lower case, without its dot and without trailing dots and spaces; "" if none."""
    if not filename:
        return ""
    name = filename.replace("\\", "/").rpartition("/")[2].rstrip(". ")
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and stem else ""


def recognise(source: Source, first: Format | None) -> Format | None:
    """Return the first binary format that matches. `first` goes first: a .zip with the members of a .docx is a zip."""
    if first is not None and first.matches(source):
        return first
    return next((each for each in candidates(source.head) if each.matches(source)), None)


def is_plain_text(source: Source) -> bool:
    """Return whether the first 4 KiB are characters only: such a file is no image, whatever its first letters are."""
    return not source.head[:_PLAIN_TEXT_BYTES].translate(None, _TEXT_BYTES)


def content_type_of(source: Source) -> str:
    """Return libmagic's media type of content that no format matches, `UNKNOWN_TYPE` if it has none."""
    if source.size == 0:
        return UNKNOWN_TYPE
    if is_mail(source.head):  # libmagic knows mails by a few first fields alone
        return "message/rfc822"
    found = _libmagic().from_buffer(source.head[:_LIBMAGIC_BYTES])
    return found if is_content_type(found) and found not in _VAGUE_TYPES else UNKNOWN_TYPE


def preload() -> None:
    """Load libmagic's database while there is a file system to load it from."""
    _libmagic()


@cache
def _libmagic() -> "magic.Magic":
    import magic  # noqa: PLC0415  (importing it loads the C library, which is what `preload` is for)

    reader = magic.Magic(mime=True)
    reader.from_buffer(b"the first call compiles regular expressions")
    return reader
