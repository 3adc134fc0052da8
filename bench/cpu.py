"""CPU seconds and memory of whole process trees, from /proc: far steadier on a shared machine than any rate."""

import os
from collections.abc import Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(roots: Iterable[int]) -> float:
    """Answer the CPU time of the processes, of all below them, and of their children that ended and were waited for."""
    fields = _stat()
    wanted = set(roots)
    return sum(sum(int(tick) for tick in stat[11:15]) for pid, stat in fields.items() if _is_below(pid, wanted, fields)) / _TICK


def resident_bytes(pid: int) -> int:
    """Answer the resident memory of one process, without what it shares with files."""
    resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE


def below(root: int) -> list[int]:
    """Answer the process and all below it."""
    fields = _stat()
    return [pid for pid in fields if _is_below(pid, {root}, fields)]


def anonymous_bytes(root: int) -> int:
    """Answer the memory of a process and all below it that is in no file: what two of them share counts once, a spool does not count."""
    return sum(_field(pid, "Pss_Anon:") for pid in below(root)) * 1024


def descriptors(root: int) -> int:
    """Answer how many files, sockets and pipes a process and all below it hold open."""
    return sum(_count(Path(f"/proc/{pid}/fd")) for pid in below(root))


def _field(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)


def _count(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _stat() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def _is_below(pid: int, roots: set[int], fields: dict[int, list[str]]) -> bool:
    while pid in fields:
        if pid in roots:
            return True
        pid = int(fields[pid][1])
    return False
