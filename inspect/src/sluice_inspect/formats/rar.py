"""RAR archives, versions 1.5 to 7: headers, members as far as they can be unpacked, and what is packed in those."""

import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.archives.rar.headers import RAR1_MAGIC, RAR4_MAGIC, RAR5_MAGIC, read_layout
from sluice_inspect.archives.rar.walk import RAR
from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.format import Family, Format, SecondFormats, named
from sluice_inspect.parts import Certainty, Opener
from sluice_inspect.report import Encrypted
from sluice_inspect.subject import Subject
from sluice_inspect.threats.sevenzip_rar import rar_parts

_CONTENT: Final = b"A sluice is a gate.\n"


def sample() -> bytes:
    """Return an archive of one stored file."""
    size, name = bytes([len(_CONTENT)]), b"sluice.txt"
    crc = struct.pack("<L", zlib.crc32(_CONTENT))
    file = b"\x02\x02" + size + b"\x04" + size + b"\x00" + crc + b"\x00\x01" + bytes([len(name)]) + name
    return RAR5_MAGIC + _block(b"\x01\x00\x00") + _block(file) + _CONTENT + _block(b"\x05\x00\x00")


def _block(fields: bytes) -> bytes:
    header = bytes([len(fields)]) + fields
    return struct.pack("<L", zlib.crc32(header)) + header


def _list_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    layout = subject.source.cached(read_layout, subject.limits)
    if layout.is_encrypted:
        raise Encrypted("the names of the members are encrypted")
    for member in layout.members:
        yield member.name, member.is_encrypted


FORMAT: Final = Format(
    name="rar",
    family=Family.ARCHIVE,
    content_type="application/vnd.rar",
    extensions=frozenset({"rar"}),
    begins=(RAR1_MAGIC, RAR4_MAGIC, RAR5_MAGIC),
    matches=lambda source: source.head.startswith((RAR1_MAGIC, RAR4_MAGIC, RAR5_MAGIC)),
    examine=partial(examine_archive, RAR),
    facts=partial(measure_archive, list_members=_list_members),
    own_facts=frozenset({"encrypted", "encrypted_members"}),
    container=RAR,
    opener=Opener(
        begins=lambda head: head.startswith((RAR4_MAGIC, RAR5_MAGIC)),
        certainty=Certainty.SIGNATURE,
        parts=rar_parts,
        is_complete=True,
    ),
    sample=sample,
    names=named("RAR archive", "rar application/vnd.rar application/x-rar"),
    second_formats=SecondFormats.NOWHERE,
)
