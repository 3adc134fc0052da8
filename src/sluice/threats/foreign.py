"""Packings that are not opened here, told by how they begin: those that clamd opens, and those that nobody at hand does."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from sluice.threats.findings import Findings

_SHORTEST: Final = 2
"""So many bytes every mark has. They are looked up, since most files begin as none of these."""
_ISO_AT: Final = slice(0x8001, 0x8006)
_LHA_AT: Final = slice(2, 5)


def _by_beginning(marks: Mapping[bytes, str]) -> Mapping[bytes, Sequence[tuple[bytes, str]]]:
    found: dict[bytes, list[tuple[bytes, str]]] = {}
    for mark, packing in marks.items():
        found.setdefault(mark[:_SHORTEST], []).append((mark, packing))
    return MappingProxyType(found)


_BY_CLAMD: Final = _by_beginning({
    b"MSCF": "cab", b"\x60\xea": "arj", b"ITSF": "chm", b"xar!": "xar", b"07070": "cpio", b"\xc7\x71": "cpio",
    b"SZDD": "szdd", b"KWAJ": "kwaj", b"MZ": "program", b"CWS": "swf", b"ZWS": "swf", b"\x78\x9f\x3e\x22": "tnef", b"EGGA": "egg",
    b"ALZ\x01": "alz", b"\xef\xbe\xad\xde": "nsis", b"\xe4\x52\x5c\x7b": "onenote", b"!<arch>": "ar",
})  # fmt: skip
_BY_NOBODY: Final = _by_beginning({
    b"\x1f\x9d": "compress", b"LZIP": "lzip", b"\x89LZO": "lzop", b"RE\x7e\x5e": "rar 1.4",
})  # fmt: skip


def note(head: bytes, findings: Findings) -> None:
    """Note the packings that bytes which begin with `head` are in."""
    beginning = head[:_SHORTEST]
    findings.foreign.update(packing for mark, packing in _BY_CLAMD.get(beginning, ()) if head.startswith(mark))
    findings.unopened.update(packing for mark, packing in _BY_NOBODY.get(beginning, ()) if head.startswith(mark))
    if head[_ISO_AT] == b"CD001":
        findings.foreign.add("iso")
    if head[_LHA_AT] == b"-lh":
        findings.foreign.add("lha")
