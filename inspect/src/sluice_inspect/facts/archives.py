"""Members of an archive: as the walk through it saw them, or as its directory lists them if the walk ended early."""

from collections.abc import Callable, Iterator
from typing import Final

from sluice_inspect.programs import PROGRAM, SCRIPT, SHORTCUT, ProgramCount
from sluice_inspect.report import Encrypted, FactSheet
from sluice_inspect.subject import Subject

_COUNTS: Final = {PROGRAM: "programs", SCRIPT: "scripts", SHORTCUT: "shortcuts"}


# Yields name of each member that the directory of an archive lists, and whether it is encrypted.
ListMembers = Callable[[Subject], Iterator[tuple[str, bool]]]


def measure_archive(subject: Subject, sheet: FactSheet, *, list_members: ListMembers | None = None) -> None:
    """Add encryption, and what the directory lists if the examination did not see all of it."""
    if list_members is None:
        sheet.facts.pop("encrypted_members", None)
        return
    if not sheet.complete or "members" not in sheet.facts:
        _add_listed(list_members, subject, sheet)
    sheet.facts.setdefault("encrypted", _count(sheet, "encrypted_members") > 0)


def _add_listed(list_members: ListMembers, subject: Subject, sheet: FactSheet) -> None:
    seen_encrypted = _count(sheet, "encrypted_members")
    sheet.facts.pop("encrypted_members", None)  # absent if the directory cannot be read
    try:
        listed = list(list_members(subject))
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
