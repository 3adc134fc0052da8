"""A sealed file as the parts of a multipart upload, read one at a time and stoppable. Who sends them stands in `s3`."""

import os
from collections.abc import Iterator

from sluice.engines.storage.protocol import StoreFault
from sluice.kit.failpoints import reach


class Parts:
    """Iterates over the bytes of descriptor `fd` in pieces of `part_bytes`.

    Raising from the iterator is how the client library is told to abort an upload; both a stop and a short file do so. The
    library iterates in a thread of its own, outside the event loop.
    """

    def __init__(self, fd: int, size: int, part_bytes: int) -> None:
        self._fd = fd
        self._size = size
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
        if self._offset == self._size:
            raise StopIteration
        if self._offset:
            reach("parts.read")
        part = read_exactly(self._fd, min(self._part_bytes, self._size - self._offset), self._offset)
        self._offset += len(part)
        return part


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
