"""Programs that pass themselves off as documents, pictures or recordings: told by a name and the first bytes. Unpacks nothing.

A program under its own name is no threat here: which extensions are let in is decided by the rules of a context.
"""

import re
from collections.abc import Callable
from typing import Final

_TEXT: Final = re.compile("csv|css|eml|html?|json|log|markdown|md|srt|svg|tsv|txt|xml|ya?ml")
_DOCUMENT: Final = re.compile(
    "pdf|do[ct][xm]?|xls[xmb]?|pp[ts][xm]?|od[tspg]|rtf|epub|msg|one|pub|vsdx?"
    "|jpe?g|jpe|jfif|png|gif|webp|bmp|tiff?|hei[cf]|avif|jp2|ico|psd"
    "|mp3|mp4|m4[av]|mov|avi|mkv|webm|wav|flac|ogg|opus|aac|aiff?|wm[av]|mpe?g"
)

_MACHO_MAGICS: Final = (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe")
_MACHO_FILETYPES: Final = range(1, 16)  # MH_OBJECT … MH_FILESET
_UNIVERSAL_MAGIC: Final = b"\xca\xfe\xba\xbe"
_UNIVERSAL_MOST_PARTS: Final = 30  # a Java class has the same magic, and here its version, which is 45 or more
_PE_OFFSET_AT: Final = 0x3C
_SHEBANG: Final = re.compile(rb"#![ \t]*/[\x21-\x7e]")


def disguised_program(name: str, head: bytes) -> str | None:
    """Answer what kind of program begins with `head` when `name` says document, picture, recording or text; else None.

    `head` should be the first 64 KiB. A script under the name of a text is a text that somebody wants to read: no disguise.
    """
    extension = _extension(name)
    if _DOCUMENT.fullmatch(extension):
        return _binary_kind(head) or ("Script" if _SHEBANG.match(head) else None)
    if _TEXT.fullmatch(extension):
        return _binary_kind(head)
    return None


def _extension(name: str) -> str:
    last = re.split(r"[/\\]", name)[-1].rstrip(". ")
    return last.rpartition(".")[2].lower() if "." in last else ""


def _binary_kind(head: bytes) -> str | None:
    return next((kind for kind, recognises in _BINARIES if recognises(head)), None)


def _is_pe(head: bytes) -> bool:
    at = int.from_bytes(head[_PE_OFFSET_AT : _PE_OFFSET_AT + 4], "little")
    return head[:2] == b"MZ" and head[at : at + 4] == b"PE\0\0"


def _is_elf(head: bytes) -> bool:
    return head[:4] == b"\x7fELF" and head[4:5] in {b"\1", b"\2"} and head[5:6] in {b"\1", b"\2"} and head[6:7] == b"\1"


def _is_macho(head: bytes) -> bool:
    if head[:4] == _UNIVERSAL_MAGIC:
        return 1 <= int.from_bytes(head[4:8], "big") <= _UNIVERSAL_MOST_PARTS
    filetype = head[12:16] if head[:1] == b"\xfe" else head[12:16][::-1]  # the magic tells the byte order
    return head[:4] in _MACHO_MAGICS and int.from_bytes(filetype, "big") in _MACHO_FILETYPES


_BINARIES: Final[tuple[tuple[str, Callable[[bytes], bool]], ...]] = (("PE", _is_pe), ("ELF", _is_elf), ("Mach-O", _is_macho))
