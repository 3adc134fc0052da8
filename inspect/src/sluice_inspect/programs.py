"""Programs, scripts and shortcuts, recognised by their first bytes or by the extension of their name; disguises."""
# By name: the extensions of `program_names`; which of them are scripts or shortcuts is said here.

import re
from dataclasses import dataclass, field
from typing import Final

from sluice_inspect.extensions import DISK_IMAGES, Promise, extension_of, promise_of
from sluice_inspect.program_names import is_program_name

HEAD_BYTES: Final = 512  # this many first bytes are enough

_SCRIPTS: Final = frozenset(
    """
    bas bat bsh cmd command csh hta js jse ksh mjs ps1 ps1xml ps2 ps2xml psc1 psc2 psd1 psm1 py pyw pyz pyzw reg scpt
    sct sh vb vbe vbs ws wsc wsf wsh zsh
    """.split()  # noqa: SIM905  (a list of quoted names is harder to read)
)
_SHORTCUTS: Final = frozenset(
    """
    appref-ms desktop fileloc inetloc library-ms lnk scf search-ms searchconnector-ms settingcontent-ms url webloc
    website xnk
    """.split()  # noqa: SIM905
)
# Installed or loaded rather than opened, so that no mail client lists them.
_PROGRAMS: Final = frozenset({"action", "appimage", "class", "deb", "dex", "drv", "efi", "elf", "pkg", "rpm", "so"})
_DOCUMENTS: Final = frozenset({Promise.BINARY, Promise.DOCUMENT})
_NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]|%PDF-")
_WIDE_TEXT: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_MIN_TEXT: Final = 8
# How scripts of Windows, browsers and servers begin: enough for what is no text at all by its name.
_CODE: Final = re.compile(
    rb"ActiveXObject|\bWScript\b|\bCreateObject\s*\(|\bGetObject\s*\(|\bpowershell\b|\bpwsh\b|\bmshta\b|\brundll32\b"
    rb"|\bregsvr32\b|\bcertutil\b|\bbitsadmin\b|\bmsiexec\b|\bInvoke-\w+|\biex\b|\bNew-Object\s|\bStart-Process\b"
    rb"|\bcmd(?:\.exe)?\s+/[ckv]|@?\becho\s+off\b|<\?(?:php\b|=)|<script[\s>]|<hta:|<(?:job|package|scriptlet)[\s>]"
    rb"|\beval\s*\(|\bfunction\s*\w*\s*\(|\b(?:var|let|const)\s+[\w$]+\s*=|\bDim\s+\w|\bSub\s+\w+"
    rb"|\bOn\s+Error\s+Resume\b|\bimport\s+(?:os|sys|subprocess|socket)\b|\brequire\s*\(|Windows Registry Editor"
    rb"|\$\w+\s*=\s*\S|=>\s*\{",
    re.IGNORECASE,
)
_ARCHIVE_MAGICS: Final = (
    b"PK\x03\x04", b"PK\x05\x06", b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"MSCF",
)  # fmt: skip
_DOCUMENT_MAGICS: Final = (
    b"%PDF-", b"\xd0\xcf\x11\xe0", b"{\\rtf", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"<?xml", b"<!DOCTYPE", b"<html",
)  # fmt: skip
_NEW_HEADERS: Final = (b"PE", b"NE", b"LE", b"LX")
_NEW_HEADER_WITHIN: Final = 64 * 1024
_MACH_O: Final = {b"\xfe\xed\xfa\xce": "big", b"\xfe\xed\xfa\xcf": "big", b"\xce\xfa\xed\xfe": "little",
                  b"\xcf\xfa\xed\xfe": "little"}  # fmt: skip
_MACH_O_TYPES_MOST: Final = 15
# A universal binary has a count of parts where a Java class has its version, 45 or more.
_UNIVERSAL: Final = b"\xca\xfe\xba\xbe"
_UNIVERSAL_PARTS_MOST: Final = 30
_LEAST_JAVA_VERSION: Final = 45
_SHEBANG: Final = re.compile(rb"(?:\xef\xbb\xbf)?#![ \t]*/[\x21-\x7e]")
_SHORTCUT: Final = bytes.fromhex("4c0000000114020000000000c000000000000046")

PROGRAM, SCRIPT, SHORTCUT = "program", "script", "shortcut"
_BY_NAME: Final = {
    **dict.fromkeys(_PROGRAMS, PROGRAM), **dict.fromkeys(_SCRIPTS, SCRIPT), **dict.fromkeys(_SHORTCUTS, SHORTCUT),
}  # fmt: skip


def recognise(name: str, head: bytes) -> tuple[str, str] | None:
    """Return `program`, `script` or `shortcut` and the name of `PROGRAM_KINDS` that tells how, or None."""
    kind = _kind_of(head)
    if kind is not None:
        return {"shebang": SCRIPT, "lnk": SHORTCUT}.get(kind, PROGRAM), kind
    extension = extension_of(name)
    category = _BY_NAME.get(extension)
    if category is None and extension not in DISK_IMAGES and is_program_name(name):
        category = PROGRAM
    if category is None and promise_of(extension) in _DOCUMENTS and _CODE.search(_text_of(head)):
        return SCRIPT, "code"
    return None if category is None else (category, "name")


def is_disguised(name: str, head: bytes) -> bool:
    """Return whether a name promises a document, picture or recording, and the bytes are a program, script or text."""
    promise = promise_of(extension_of(name))
    if promise not in _DOCUMENTS:
        return False
    return recognise(name, head) is not None or (promise is Promise.BINARY and _text_of(head) != b"")


def _text_of(head: bytes) -> bytes:
    """Return first bytes that are a text, in single bytes; none if they are not."""
    encoding = _WIDE_TEXT.get(head[:2])
    text = head[2:].decode(encoding, "replace").encode("ascii", "replace") if encoding else head
    return b"" if len(text.strip()) < _MIN_TEXT or _NOT_TEXT.search(text) else text


def attachment_flag(name: str, head: bytes) -> str:
    """Return the flag of an attached file by its name and first bytes."""
    found = recognise(name, head)
    if found is not None:
        return f"attachment.{found[0]}"
    promise = promise_of(extension_of(name))
    if promise is Promise.ARCHIVE:
        return "attachment.archive"
    if promise is not None or head.lstrip().startswith(_DOCUMENT_MAGICS):
        return "attachment.document"
    return "attachment.archive" if head.startswith(_ARCHIVE_MAGICS) else "attachment.other"


def _kind_of(head: bytes) -> str | None:
    if head.startswith(b"MZ"):
        at = int.from_bytes(head[0x3C:0x40], "little")
        is_beyond = len(head) < at + 2 and at < _NEW_HEADER_WITHIN
        return "pe" if len(head) >= 0x40 and (is_beyond or head.startswith(_NEW_HEADERS, at)) else None
    if head.startswith(b"\x7fELF"):
        return "elf"
    if (order := _MACH_O.get(head[:4])) is not None:
        file_type = int.from_bytes(head[12:16], "little" if order == "little" else "big")
        return "mach-o" if 1 <= file_type <= _MACH_O_TYPES_MOST else None
    if head.startswith(_UNIVERSAL):
        if 1 <= int.from_bytes(head[4:8], "big") <= _UNIVERSAL_PARTS_MOST:
            return "mach-o"
        return "java-class" if int.from_bytes(head[6:8], "big") >= _LEAST_JAVA_VERSION else None
    if head.startswith(b"dex\n0"):
        return "dex"
    if head.startswith(_SHORTCUT):
        return "lnk"
    return "shebang" if _SHEBANG.match(head) else None


@dataclass(slots=True)
class ProgramCount:
    """How many programs, scripts and shortcuts were seen, how they were recognised, whether any was disguised."""

    counts: dict[str, int] = field(default_factory=lambda: {PROGRAM: 0, SCRIPT: 0, SHORTCUT: 0})
    kinds: set[str] = field(default_factory=set)
    has_disguised: bool = False

    def add(self, name: str, head: bytes) -> None:
        """Count a member by its name and first bytes."""
        found = recognise(name, head)
        if found is not None:
            self.counts[found[0]] += 1
            self.kinds.add(found[1])
        self.has_disguised = self.has_disguised or is_disguised(name, head)
