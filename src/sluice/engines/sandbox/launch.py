"""A zygote's process, begun and not yet ready: it may load its parsers while the server loads itself. Made ready and used in `nursery`."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox.program import Program, Running

DEFAULT_JOBS: Final = "sluice.engines.sandbox.jobs"


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that loads, and our end of its packet socket. It ends by itself with the thread that began it."""

    program: Running
    control: socket.socket

    def kill(self) -> None:
        """Let nobody use it."""
        self.control.close()
        self.program.kill()


def launch_zygote(*, memory_bytes: int, jobs: str = DEFAULT_JOBS, import_path: Sequence[str] = ()) -> Launched:
    """Begin a zygote; raises `OSError` when no process can be had. What the arguments mean: `ZygoteSandbox`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    arguments = {"jobs": jobs, "memory_bytes": memory_bytes}
    try:
        program = Program("sluice.engines.sandbox.zygote_main", arguments, theirs, import_path=import_path)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Launched(program, ours)
