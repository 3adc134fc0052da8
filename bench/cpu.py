"""CPU seconds and memory of process trees, from /proc. On a shared machine these vary far less than rates."""

import os
from collections.abc import Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(roots: Iterable[int]) -> float:
    """Return the CPU time of the processes, their descendants, and their children that have ended and been reaped."""
    fields = _stat()
    wanted = set(roots)
    return (
        sum(sum(int(tick) for tick in stat[11:15]) for pid, stat in fields.items() if _is_within(pid, wanted, fields))
        / _TICK
    )


def resident_bytes(pid: int) -> int:
    """Return the resident memory of one process without file mappings."""
    resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
    return (int(resident) - int(shared)) * _PAGE


def tree(root: int) -> list[int]:
    """Return the process and its descendants."""
    fields = _stat()
    return [pid for pid in fields if _is_within(pid, {root}, fields)]


def anonymous_bytes(root: int) -> int:
    """Return the anonymous memory of a process and its descendants: shared pages count once, a spool does not count."""
    return sum(_field(pid, "Pss_Anon:") for pid in tree(root)) * 1024


def pss_bytes(pid: int) -> int:
    """Return the memory of one process, in which a page that several share counts to each in part."""
    return _field(pid, "Pss:") * 1024


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def servers(supervisor: int) -> list[int]:
    """Return the processes of a server: the children of its supervisor but the zygote, which runs another program."""
    program = Path(f"/proc/{supervisor}/cmdline").read_bytes()
    return [pid for pid in children(supervisor) if Path(f"/proc/{pid}/cmdline").read_bytes() == program]


def descriptors(root: int) -> int:
    """Return the number of open files, sockets and pipes of a process and its descendants."""
    return sum(_count(Path(f"/proc/{pid}/fd")) for pid in tree(root))


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


def _is_within(pid: int, roots: set[int], fields: dict[int, list[str]]) -> bool:
    while pid in fields:
        if pid in roots:
            return True
        pid = int(fields[pid][1])
    return False
