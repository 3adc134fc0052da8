"""The bytes of an upload, read in parts as a store sends them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

from sluice.kit.failpoints import failpoint
from sluice.storage.protocol import StoreError


class PartReader:
    """Iterates over the bytes of the descriptor `fd` in parts of `part_bytes`.

    An iterator that raises makes the library abort the upload; both `stop` and a file that ends early do so. The
    library iterates in a thread of its own. It gets views of buffers, each of which is used again once the library has
    released its view: new memory of this size costs as much as the read into it.
    """

    def __init__(self, fd: int, size: int, part_bytes: int) -> None:
        self._fd = fd
        self.size = size
        self._part_bytes = part_bytes
        self._offset = 0
        self._stopped = False
        self._views: list[memoryview] = []

    def stop(self) -> None:
        """Make the next step raise."""
        self._stopped = True

    def __iter__(self) -> Iterator[memoryview]:
        return self

    def __next__(self) -> memoryview:
        if self._stopped:
            raise StoreError("The upload was cancelled.")
        if self._offset == self.size:
            raise StopIteration
        if self._offset:
            failpoint("parts.read")
        part = memoryview(self._free_buffer())[: self.size - self._offset]
        self._views.append(part)
        read_into(self._fd, part, self._offset)
        self._offset += len(part)
        return part

    def _free_buffer(self) -> bytearray:
        for number, view in enumerate(self._views):
            buffer: bytearray = view.obj  # type: ignore[assignment]  # of each of ours
            with suppress(BufferError):  # the library reads it
                view.release()
                del self._views[number]
                return buffer
        return bytearray(min(self._part_bytes, self.size))


class SpeculativePartReader:
    """The same parts for an upload that is completed only once `allowed`; `on_last` is awaited after the last part."""

    # Asynchronous, because the library then iterates on the event loop: waiting there blocks none of its few threads.

    def __init__(
        self, parts: PartReader, allowed: "asyncio.Future[bool]", on_last: Callable[[], Awaitable[None]]
    ) -> None:
        self._parts = parts
        self._allowed = allowed
        self._on_last = on_last

    def stop(self) -> None:
        """Make the next step raise, also one that waits to be allowed."""
        self._parts.stop()
        if not self._allowed.done():
            self._allowed.set_result(False)

    def __aiter__(self) -> AsyncIterator[memoryview]:
        return self

    async def __anext__(self) -> memoryview:
        part = await asyncio.to_thread(next, self._parts, None)
        if part is not None:
            return part
        await self._on_last()
        if not await self._allowed:
            raise StoreError("The upload was not allowed.")
        raise StopAsyncIteration


def read_exactly(fd: int, count: int, offset: int) -> bytes:
    """Return `count` bytes at `offset`; raise `StoreError` when there are fewer."""
    try:
        found = os.pread(fd, count, offset)
        while len(found) < count:  # a read returns at most 2 GiB, and less when a signal interrupts it
            more = os.pread(fd, count - len(found), offset + len(found))
            if not more:
                raise StoreError("The received bytes ended before their stated size.")
            found += more
    except OSError as error:
        raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
    return found


def read_into(fd: int, buffer: memoryview, offset: int) -> None:
    """Fill the buffer from `offset`; raise `StoreError` when there are fewer bytes."""
    try:
        done = 0
        while done < len(buffer):
            count = os.preadv(fd, [buffer[done:]], offset + done)
            if not count:
                raise StoreError("The received bytes ended before their stated size.")
            done += count
    except OSError as error:
        raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
