"""7z archives: headers, every file by its checksum, and what is packed in those."""

import struct
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.archives.sevenzip.coders import AES
from sluice_inspect.archives.sevenzip.walk import MAGIC, SEVEN_ZIP, read_directory
from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.format import Family, Format, SecondFormats, named
from sluice_inspect.parts import Certainty, Opener
from sluice_inspect.subject import Subject
from sluice_inspect.threats.sevenzip_rar import sevenzip_parts

_CONTENT: Final = b"A sluice is a gate.\n"


def sample() -> bytes:
    """Return an archive of one stored file."""
    name = "sluice.txt\0".encode("utf-16-le")
    size = bytes([len(_CONTENT)])
    crc = struct.pack("<L", zlib.crc32(_CONTENT))
    packed = b"\x06\x00\x01\x09" + size + b"\x00"
    folder = b"\x07\x0b\x01\x00\x01\x01\x00\x0c" + size + b"\x0a\x01" + crc + b"\x00"
    files = b"\x05\x01\x11" + bytes([len(name) + 1]) + b"\x00" + name + b"\x00"
    header = b"\x01\x04" + packed + folder + b"\x08\x00\x00" + files + b"\x00"
    start = struct.pack("<QQL", len(_CONTENT), len(header), zlib.crc32(header))
    return MAGIC + b"\x00\x04" + struct.pack("<L", zlib.crc32(start)) + start + _CONTENT + header


def _list_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    directory = subject.source.cached(read_directory, subject.limits)
    folders = zip(directory.table.folders, directory.table.substreams, strict=False)
    encrypted = (AES in {coder.method for coder in folder.coders} for folder, streams in folders for _ in streams)
    for file in directory.files:
        yield file.name, file.has_stream and next(encrypted, False)


FORMAT: Final = Format(
    name="7z",
    family=Family.ARCHIVE,
    content_type="application/x-7z-compressed",
    extensions=frozenset({"7z", "cb7"}),
    begins=(MAGIC,),
    matches=lambda source: source.head.startswith(MAGIC),
    examine=partial(examine_archive, SEVEN_ZIP),
    facts=partial(measure_archive, list_members=_list_members),
    own_facts=frozenset({"encrypted", "encrypted_members"}),
    container=SEVEN_ZIP,
    opener=Opener(
        begins=lambda head: head.startswith(MAGIC),
        certainty=Certainty.SIGNATURE,
        parts=sevenzip_parts,
        is_complete=True,
    ),
    sample=sample,
    names=named("7-Zip archive", "7z application/x-7z"),
    second_formats=SecondFormats.NOWHERE,
)
