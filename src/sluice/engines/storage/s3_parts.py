"""A sealed file as the parts of a multipart upload, read one at a time and stoppable. Who sends them stands in `s3`."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from sluice.engines.storage.protocol import StoreFault
from sluice.kit.failpoints import reach


class Parts:
    """Iterates over the bytes of descriptor `fd` in pieces of `part_bytes`.

    Raising from the iterator is how the client library is told to abort an upload; both a stop and a short file do so. The
    library iterates in a thread of its own, outside the event loop.
    """

    def __init__(self, fd: int, size: int, part_bytes: int) -> None:
        self._fd = fd
        self.size = size
        self._part_bytes = part_bytes
        self._offset = 0
        self._stopped = False

    def stop(self) -> None:
        """Have the next step raise."""
        self._stopped = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._stopped:
            raise StoreFault("The upload was cancelled.")
        if self._offset == self.size:
            raise StopIteration
        if self._offset:
            reach("parts.read")
        part = read_exactly(self._fd, min(self._part_bytes, self.size - self._offset), self._offset)
        self._offset += len(part)
        return part


class PartsAhead:
    """The same parts for an upload that may end only once it is `allowed`. `on_last` is called when there is nothing left to read.

    The library asks for these in the event loop: to wait there holds none of its few threads.
    """

    def __init__(self, parts: Parts, allowed: "asyncio.Future[bool]", on_last: Callable[[], Awaitable[None]]) -> None:
        self._parts = parts
        self._allowed = allowed
        self._on_last = on_last

    def stop(self) -> None:
        """Have the next step raise, and the one that waits."""
        self._parts.stop()
        if not self._allowed.done():
            self._allowed.set_result(False)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        part = await asyncio.to_thread(next, self._parts, None)
        if part is not None:
            return part
        await self._on_last()
        if not await self._allowed:
            raise StoreFault("The upload was not allowed.")
        raise StopAsyncIteration


def read_exactly(fd: int, count: int, offset: int) -> bytes:
    """Answer `count` bytes at `offset`; raises `StoreFault` when there are fewer."""
    try:
        found = os.pread(fd, count, offset)
        while len(found) < count:  # a read answers 2 GiB at most, and less where a signal came between
            more = os.pread(fd, count - len(found), offset + len(found))
            if not more:
                raise StoreFault("The received bytes ended before their stated size.")
            found += more
    except OSError as error:
        raise StoreFault(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
    return found
