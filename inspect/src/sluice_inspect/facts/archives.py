"""Members of an archive: as the walk through it saw them, or as its directory lists them if the walk ended early."""

from collections.abc import Iterator
from typing import Final

from sluice_inspect.archives.rar.headers import read_layout
from sluice_inspect.archives.sevenzip.coders import AES
from sluice_inspect.archives.sevenzip.walk import read_directory
from sluice_inspect.archives.zip.records import find_end, read_members
from sluice_inspect.budget import Budget
from sluice_inspect.facts.subject import Subject
from sluice_inspect.programs import PROGRAM, SCRIPT, SHORTCUT, ProgramCount
from sluice_inspect.report import Encrypted, FactSheet

_ZIP_AES: Final = 99
_COUNTS: Final = {PROGRAM: "programs", SCRIPT: "scripts", SHORTCUT: "shortcuts"}


def measure_archive(subject: Subject, sheet: FactSheet) -> None:
    """Add encryption, and what the directory lists if the examination did not see all of it."""
    if subject.format_name not in _READERS:
        sheet.facts.pop("encrypted_members", None)
        return
    if not sheet.complete or "members" not in sheet.facts:
        _add_listed(subject, sheet)
    sheet.facts.setdefault("encrypted", _count(sheet, "encrypted_members") > 0)


def _add_listed(subject: Subject, sheet: FactSheet) -> None:
    seen_encrypted = _count(sheet, "encrypted_members")
    sheet.facts.pop("encrypted_members", None)  # absent if the directory cannot be read
    try:
        listed = list(_READERS[subject.format_name](subject))
    except Encrypted:  # the names too: nothing of the members is known
        sheet.facts.clear()
        sheet.facts["encrypted"] = True
        return
    names = ProgramCount()
    for name, _ in listed:
        names.add(name, b"")
    encrypted = sum(is_encrypted for _, is_encrypted in listed)
    found = {_COUNTS[category]: count for category, count in names.counts.items()}
    for name, count in {"members": len(listed), "encrypted_members": encrypted, **found}.items():
        sheet.facts[name] = max(count, seen_encrypted if name == "encrypted_members" else _count(sheet, name))
    sheet.flags |= {f"archive.{category}" for category, count in names.counts.items() if count}
    kinds = sheet.facts.get("program_kinds", ())
    if names.kinds and isinstance(kinds, tuple):
        sheet.facts["program_kinds"] = (*kinds, *names.kinds)


def _count(sheet: FactSheet, name: str) -> int:
    value = sheet.facts.get(name, 0)
    return value if isinstance(value, int) else 0


def _zip_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    end = find_end(subject.source)
    for member in read_members(subject.source, end, subject.limits) if end else ():
        yield member.shown_name, member.is_encrypted or member.method == _ZIP_AES


def _sevenzip_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    budget = Budget(subject.limits, packed_bytes=subject.source.size)
    table, files, _ = read_directory(subject.source, budget)
    folders = zip(table.folders, table.substreams, strict=False)
    encrypted = (AES in {coder.method for coder in folder.coders} for folder, streams in folders for _ in streams)
    for file in files:
        yield file.name, file.has_stream and next(encrypted, False)


def _rar_members(subject: Subject) -> Iterator[tuple[str, bool]]:
    layout = read_layout(subject.source, subject.limits)
    if layout.is_encrypted:
        raise Encrypted("the names of the members are encrypted")
    for member in layout.members:
        yield member.name, member.is_encrypted


_READERS: Final = {"zip": _zip_members, "7z": _sevenzip_members, "rar": _rar_members}
