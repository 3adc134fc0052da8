"""A faulty clamd in its own thread, so that tests that use HTTP can change it between two requests."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.scanner.faulty_clamd import Fault, FaultyClamd, Peer, faulty_clamd, read_stream

BAD_PHRASE = b"a phrase that only later signatures contain"


@contextmanager
def daemon_in_thread(fault: Fault) -> Iterator[FaultyClamd]:
    """Listen on a free loopback port until the block ends. It scans at most 16 MB and reports exceeded limits."""
    started: list[FaultyClamd] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with faulty_clamd(fault) as daemon:
            daemon.max_bytes = 16 * 1024**2
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
    await read_stream(peer)
    await peer.send(b"stream: OK\0")


async def finds_bad_phrase(peer: Peer) -> None:
    """Respond like a clamd whose signatures contain `BAD_PHRASE`."""
    found = BAD_PHRASE in await read_stream(peer)
    await peer.send(b"stream: Bad.Phrase FOUND\0" if found else b"stream: OK\0")
