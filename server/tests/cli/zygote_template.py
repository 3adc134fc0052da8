"""A process that has loaded every parser and forks a zygote per request. `zygotes` starts it and sends the requests.

It is also a jobs module, with the jobs of the product and a `preload` that has nothing left to load.
"""

import gc
import json
import os
import signal
import socket
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Never

from sluice_inspect.child import confinement, jobs, zygote

JOBS = jobs.JOBS
load_rules = jobs.load_rules
load_checks = jobs.load_checks


def preload() -> None:
    """Do nothing: the parent process has loaded every parser."""


def preload_for(_extensions: Sequence[str], *, scanned: bool) -> None:
    """Do nothing, likewise."""


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield one sample for the self-test: a server with a zygote of its own tests every format."""
    return islice(jobs.samples(), 1)


def main(raw_arguments: str) -> None:
    """Fork zygotes until the tests close their end of the socket. Arguments as JSON: `socket` and `parent`."""
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    confinement.die_with(arguments["parent"])
    requests = socket.socket(fileno=arguments["socket"])
    jobs.preload()
    gc.collect()
    gc.freeze()
    while True:
        packet, fds, _flags, _address = socket.recv_fds(requests, 4096, 2)
        if not packet:
            return
        template = os.getpid()
        pid = os.fork()
        if pid == 0:
            requests.close()
            _run_zygote(json.loads(packet), fds, template)
        for fd in fds:
            os.close(fd)
        requests.send(str(pid).encode())


def _run_zygote(request: dict[str, int], fds: Sequence[int], template: int) -> Never:
    control, errors = fds
    status = 1
    try:
        os.setsid()
        os.dup2(errors, 2)
        os.close(errors)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        zygote.main(json.dumps({**request, "jobs": __name__, "socket": control, "parent": template}))
        status = 0
    except BaseException:  # noqa: BLE001  (whatever it is: it must not continue as a second template)
        traceback.print_exc()
    finally:
        os._exit(status)
