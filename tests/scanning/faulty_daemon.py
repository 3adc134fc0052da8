"""A faulty clamd on a thread of its own, so that tests that ask over HTTP may change it between two requests."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.engines.scanner.faulty_clamd import Fault, FaultyClamd, Peer, faulty_clamd, take_all

BAD = b"a phrase that only later signatures know"


@contextmanager
def daemon_in_thread(fault: Fault) -> Iterator[FaultyClamd]:
    """Listen on a free loopback port until the block ends. It scans files of at most 16 MB, and says so."""
    started: list[FaultyClamd] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with faulty_clamd(fault) as daemon:
            daemon.largest = 16 * 1024**2
            started.append(daemon)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def finds_nothing(peer: Peer) -> None:
    await take_all(peer)
    await peer.say(b"stream: OK\0")


async def finds_bad(peer: Peer) -> None:
    """Answer as one whose signatures know `BAD`."""
    found = BAD in await take_all(peer)
    await peer.say(b"stream: Bad.Phrase FOUND\0" if found else b"stream: OK\0")
