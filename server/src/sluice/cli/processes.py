"""The number of processes, and the share of each in limits that a process counts by itself."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.settings import Settings

MOST_PROCESSES: Final = 64
_MOST_BY_DEFAULT: Final = 8
# A tenant may have a quarter of the spool, and that must hold the largest file.
_LEAST_SPOOL_MB: Final = 2048
# An upload never needs two connections of its pool at once; with a single one they would wait for each other's commit.
_LEAST_POOL: Final = 2


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One process of a server and its siblings.

    `folder` holds what the processes share at run time, None if there is only one. `is_first` is true for the process
    that begins the start of the server: it makes the first key and prints the address. `ready_fd` is closed when the
    process serves requests.
    """

    number: int = 0
    count: int = 1
    folder: Path | None = None
    is_first: bool = True
    ready_fd: int | None = None

    @property
    def zygote(self) -> Path | None:
        """The socket of the zygote that the processes share, None if there is only one process."""
        return None if self.folder is None else zygote_path(self.folder)

    def announce(self) -> None:
        """Report to the supervisor that this process serves requests."""
        if self.ready_fd is not None:
            os.write(self.ready_fd, b"1")
            os.close(self.ready_fd)


def zygote_path(folder: Path) -> Path:
    """Return where the zygote listens that the processes of a server share."""
    return folder / "zygote"


def process_count(settings: "Settings") -> int:
    """Return how many processes serve. Raise `CommandRefused` if there are too many for a limit to be shared."""
    divided = {
        "SLUICE_CONNECTIONS": (settings.connections, 1),
        "SLUICE_CONNECTIONS_PER_ADDRESS": (_per_address(settings), 1),
        "SLUICE_UPLOADS_PER_TENANT": (settings.uploads_per_tenant, 1),
        "SLUICE_FAILED_LOGINS": (settings.failed_logins, 1),
        "SLUICE_SPOOL_MB": (settings.spool_mb, _LEAST_SPOOL_MB),
    }
    if settings.processes is None:
        # SQLite has one writer at a time, whatever writes. A failpoint is there to end the whole server.
        if settings.resolved_database_url.startswith("sqlite") or settings.failpoint is not None:
            return 1
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        # A process uses one core, and its children, the database and clamd the others. On two cores, two processes
        # complete a sixth more uploads per second than one: while one waits for the other core, the second works.
        return min(
            max(min(cores, 2), cores // 2), _MOST_BY_DEFAULT, *(most // least for most, least in divided.values())
        )
    for name, (value, least) in divided.items():
        if value < settings.processes * least:
            raise CommandRefused(
                f"SLUICE_PROCESSES={settings.processes} needs {name} of at least {settings.processes * least}, and it "
                f"is {value}: each process has its share of it.",
                Exit.USAGE,
            )
    return settings.processes


def of_one_process(settings: "Settings", number: int, count: int) -> "Settings":
    """Return the settings of process `number` of `count`: its share of each limit that a process counts by itself.

    The sums are never above the limits of `settings`. Rate limits, which must be exact, are counted in the database.
    """
    if count == 1:
        return settings
    workers = settings.sandbox_workers or len(os.sched_getaffinity(0))
    return settings.model_copy(
        update={
            "limiter": "database" if settings.limiter == "memory" else settings.limiter,
            "worker_inside": settings.worker_inside and number == 0,
            "connections": settings.connections // count,
            "connections_per_address": _per_address(settings) // count,
            "uploads_per_tenant": settings.uploads_per_tenant // count,
            "failed_logins": settings.failed_logins // count,
            "spool_mb": settings.spool_mb // count,
            "database_pool_size": max(_LEAST_POOL, settings.database_pool_size // count),
            "clamd_concurrency": max(1, settings.clamd_concurrency // count),
            "icap_concurrency": max(1, settings.icap_concurrency // count),
            # One file that takes its time must not hold up all others of its process.
            "sandbox_workers": max(1 if settings.sandbox_workers else 2, workers // count),
        }
    )


def _per_address(settings: "Settings") -> int:
    return settings.connections_per_address or max(1, settings.connections // 2)
