"""A process that has loaded every parser as a zygote does, and forks one on request. Started and asked in `zygotes`.

It is a jobs module, too: that of the product, which here needs no loading any more.
"""

import gc
import json
import os
import signal
import socket
import traceback
from collections.abc import Sequence
from typing import Never

from sluice.engines.sandbox import jobs, lock, zygote_main

JOBS = jobs.JOBS
samples = jobs.samples


def preload() -> None:
    """Do nothing: the process that this one was forked from has loaded all."""


def main(raw_arguments: str) -> None:
    """Fork until the tests close their end. Arguments as JSON: `socket` and `parent`."""
    arguments = json.loads(raw_arguments)
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps what nobody waits for
    lock.die_with(arguments["parent"])
    orders = socket.socket(fileno=arguments["socket"])
    jobs.preload()
    gc.collect()
    gc.freeze()
    while True:
        packet, fds, _flags, _address = socket.recv_fds(orders, 4096, 2)
        if not packet:
            return
        template = os.getpid()
        pid = os.fork()
        if pid == 0:
            orders.close()
            _be_a_zygote(json.loads(packet), fds, template)
        for fd in fds:
            os.close(fd)
        orders.send(str(pid).encode())


def _be_a_zygote(order: dict[str, int], fds: Sequence[int], template: int) -> Never:
    control, words = fds
    status = 1
    try:
        os.setsid()
        os.dup2(words, 2)
        os.close(words)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        zygote_main.main(json.dumps({**order, "jobs": __name__, "socket": control, "parent": template}))
        status = 0
    except BaseException:  # noqa: BLE001  (whatever it is: it must not run on as a second template)
        traceback.print_exc()
    finally:
        os._exit(status)
