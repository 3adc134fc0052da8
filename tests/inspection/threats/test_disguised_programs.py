"""Programs with the extension of a document, and harmless files that resemble them."""

import struct

from tests.inspection.threats.packed_files import scan_bytes, threat_in, verdict_of, zipped
from tests.rows import each_row

PE = b"MZ" + bytes(58) + struct.pack("<L", 64) + b"PE\0\0" + bytes(200)
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
MACHO = b"\xcf\xfa\xed\xfe" + struct.pack("<3L", 0x01000007, 3, 2) + bytes(40)
MACHO_BIG_ENDIAN = b"\xfe\xed\xfa\xce" + struct.pack(">3L", 18, 0, 2) + bytes(40)
UNIVERSAL = b"\xca\xfe\xba\xbe" + struct.pack(">L", 2) + bytes(40)
SCRIPT = b"#!/bin/sh\nrm -rf /\n"


@each_row(
    ("data", "filename", "program_type"),
    [
        (PE, "invoice.pdf", "PE"),
        (PE, "INVOICE.PDF", "PE"),
        (PE, "invoice.pdf. .", "PE"),
        (PE, "notes.txt", "PE"),
        (ELF, "photo.jpeg", "ELF"),
        (MACHO, "film.mp4", "Mach-O"),
        (MACHO_BIG_ENDIAN, "letter.docx", "Mach-O"),
        (UNIVERSAL, "song.mp3", "Mach-O"),
        (SCRIPT, "photo.png", "Script"),
        (zipped({"papers/invoice.pdf": PE}), "papers.zip", "PE"),
        (zipped({"papers\\invoice.pdf": PE}), "papers.zip", "PE"),
    ],
)
def test_program_with_a_document_extension_is_a_threat(data: bytes, filename: str, program_type: str) -> None:
    assert threat_in(data, filename) == f"Disguised-Program.{program_type}"


@each_row(
    ("case", "data", "filename"),
    [
        ("a program under its own name", PE, "setup.exe"),
        ("no name", PE, ""),
        ("no extension", PE, "pdf"),
        ("programs in an archive", zipped({"bin/tool": ELF, "setup.exe": PE}), "tools.zip"),
        ("a script named as text", SCRIPT, "install.txt"),
        ("a text that begins like a program", b"MZ is a postcode in no country", "notes.txt"),
        ("an offset beyond the file", b"MZ" + b"\xff" * 100, "notes.doc"),
        ("a Java class", b"\xca\xfe\xba\xbe\0\0\0\x34" + bytes(40), "Main.txt"),
        ("a hash and an exclamation mark", b"#! a heading", "notes.rtf"),
    ],
)
def test_harmless_file_is_not_a_threat(case: str, data: bytes, filename: str) -> None:
    assert verdict_of(scan_bytes(data, filename)) == verdict_of(scan_bytes(b""))
