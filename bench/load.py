"""The load: closed loops of uploads over kept connections, prebuilt bytes, loopback only. Knows a port and a key, no service."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

from bench.payloads import Payload

BOUNDARY = b"----bench7MA4YWxkTrZu0gW"


@dataclass(frozen=True)
class Target:
    """Where uploads go, and whose CPU they are charged to."""

    name: str
    port: int
    authorization: str
    context: str
    pids: tuple[int, ...]


@dataclass
class Outcome:
    """What came of a load: seconds of each accepted upload, and the statuses of the others."""

    seconds: list[float] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Answer the time in seconds that this share of the uploads stayed below."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def load(target: Target, payload: Payload, *, connections: int, uploads: int) -> Outcome:
    """Upload that often over that many connections; each begins its next upload when the last was answered."""
    outcome, numbers = Outcome(), itertools.count(time.time_ns())
    turns = iter(range(uploads))
    await asyncio.gather(*(_connection(target, payload, numbers, turns, outcome) for _ in range(min(connections, uploads))))
    return outcome


async def _connection(target: Target, payload: Payload, numbers: Iterator[int], turns: Iterator[int], outcome: Outcome) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    try:
        for _ in turns:
            head, tail = around(target, payload.name, len(payload.data))
            began = time.perf_counter()
            writer.writelines([head, payload.stamped(next(numbers)), tail])
            await writer.drain()
            status = await answer(reader)
            if status == HTTPStatus.CREATED:
                outcome.seconds.append(time.perf_counter() - began)
            else:
                outcome.refused.append(status)
    finally:
        writer.close()


def around(target: Target, name: str, size: int) -> tuple[bytes, bytes]:
    """Answer what goes before and after the `size` bytes of a file of that name."""
    disposition = b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="'
    before = disposition + b'context"\r\n\r\n' + target.context.encode() + b"\r\n"
    before += disposition + b'file"; filename="' + name.encode() + b'"\r\nContent-Type: application/octet-stream\r\n\r\n'
    after = b"\r\n--" + BOUNDARY + b"--\r\n"
    head = (
        f"POST /api/v1/files/upload HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nAuthorization: {target.authorization}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n"
        f"Content-Length: {len(before) + size + len(after)}\r\n\r\n"
    )
    return head.encode() + before, after


async def answer(reader: asyncio.StreamReader) -> int:
    """Answer the status of the next answer, whose body is passed over."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])
