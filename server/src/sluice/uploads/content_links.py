"""Links to sealed bytes for external checks: each lives only while its question does, and cannot be guessed.

A request for one may reach another process of the same machine. The number of the process that asks is in the link, and
the processes serve each other on sockets in a shared folder. The one that asks reads the bytes, piece by piece, as long
as the link lives: nothing outlives the question, and no store ever gets the bytes by this way.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from sluice.errors import NotFound, TooManyRequests
from sluice.observe.log import log
from sluice_inspect.sandbox.sealed import Sealed

PATH: Final = "/api/v1/check-content"
_PIECE: Final = 256 * 1024
_SECONDS: Final = 5.0  # that another process has for the next piece
_READERS: Final = 4  # of one link at once
_TOKEN_BYTES: Final = 32
_LONGEST_LINE: Final = 1024
_BUSY: Final = "too many readers"  # instead of the head of the content, between processes


@dataclass(frozen=True, slots=True)
class ContentInfo:
    """What is known of the bytes behind a link. `sha256` is in hex."""

    tenant_id: str
    size: int
    sha256: str


class LinkBroken(Exception):
    """The question ended while its bytes were read, or the process that asked did."""


class LinkedContent(Protocol):
    """The bytes behind a link that lived when it was opened."""

    info: ContentInfo

    def read(self, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield `length` bytes. Raise `LinkBroken`."""
        ...


@dataclass(slots=True)
class _Link:
    info: ContentInfo
    sealed: Sealed
    readers: int = 0
    is_open: bool = True
    siblings: set[asyncio.StreamWriter] = field(default_factory=set)  # connections by which other processes read

    @contextmanager
    def reading(self) -> Iterator["_OwnContent"]:
        """Return the bytes for one more reader. Raise `TooManyRequests`."""
        if self.readers >= _READERS:
            raise _too_many_readers()
        self.readers += 1
        try:
            yield _OwnContent(self)
        finally:
            self.readers -= 1

    def end(self) -> None:
        """End the reading, also in other processes."""
        self.is_open = False
        for writer in self.siblings:
            writer.transport.abort()


class ContentLinks:
    """The links of process `number`, whose siblings share `folder`; None: there are none.

    `base_url` is where this machine is reached.
    """

    def __init__(self, base_url: str, folder: Path | None = None, number: int = 0) -> None:
        self._base_url = base_url.rstrip("/")
        self._folder = folder
        self._number = number
        self._links: dict[str, _Link] = {}

    @contextmanager
    def opened(self, sealed: Sealed, tenant_id: str) -> Iterator[str]:
        """Return the URL of a link to the bytes, which ends with the block."""
        token = f"{self._number}-{secrets.token_urlsafe(_TOKEN_BYTES)}"
        link = _Link(ContentInfo(tenant_id, sealed.size, sealed.sha256.hex()), sealed)
        self._links[token] = link
        try:
            yield f"{self._base_url}{PATH}/{token}"
        finally:
            del self._links[token]
            link.end()

    @asynccontextmanager
    async def open(self, token: str) -> AsyncIterator[LinkedContent]:
        """Open the bytes behind a link; raise `NotFound`, or `TooManyRequests` if they are read too often at once."""
        number = token.partition("-")[0]
        if self._folder is None or number == str(self._number):
            with self._link(token).reading() as content:
                yield content
            return
        if not (number.isascii() and number.isdecimal() and len(number) <= 2 and token.isprintable()):  # noqa: PLR2004
            raise NotFound
        try:
            async with asyncio.timeout(_SECONDS):
                reader, writer = await asyncio.open_unix_connection(_socket(self._folder, number))
        except (OSError, TimeoutError) as fault:
            raise NotFound from fault
        try:
            yield await _remote(reader, writer, token)
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the bytes of this process to its siblings until the block ends."""
        if self._folder is None:
            yield
            return
        path = _socket(self._folder, str(self._number))
        path.unlink(missing_ok=True)
        async with await asyncio.start_unix_server(self._serve, path, limit=_LONGEST_LINE):
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: _Link | None = None
        try:
            link = self._link((await reader.readline()).decode().strip())
            link.siblings.add(writer)
            with link.reading() as content:
                info = content.info
                writer.write(json.dumps([info.tenant_id, info.size, info.sha256]).encode() + b"\n")
                start, length = json.loads(await reader.readline())
                async for piece in content.read(start, length):
                    writer.write(piece)
                    await writer.drain()
        except TooManyRequests:
            writer.write(json.dumps(_BUSY).encode() + b"\n")
        except (OSError, ValueError, NotFound, LinkBroken):
            pass  # the sibling sees the end
        except Exception:  # noqa: BLE001  (asyncio would write it past the log)
            log.exception("check_content_failed")
        finally:
            writer.close()
            if link is not None:
                link.siblings.discard(writer)

    def _link(self, token: str) -> _Link:
        link = self._links.get(token)
        if link is None:
            raise NotFound
        return link


def _too_many_readers() -> TooManyRequests:
    return TooManyRequests(errors=["These bytes are being read already"], limit=_READERS)


def _socket(folder: Path, number: str) -> Path:
    return folder / f"c{number}.sock"  # short: the path of a socket has about 100 bytes


class _OwnContent:
    def __init__(self, link: _Link) -> None:
        self.info = link.info
        self._link = link

    async def read(self, start: int, length: int) -> AsyncIterator[bytes]:
        while length:
            piece = await self._piece(start, min(_PIECE, length))
            yield piece
            start, length = start + len(piece), length - len(piece)

    async def _piece(self, start: int, length: int) -> bytes:
        """Return up to `length` bytes. No descriptor outlives the call: a reader that stalls would keep the bytes."""
        if not self._link.is_open:
            raise LinkBroken
        fd = self._link.sealed.reopen()  # the descriptor of the upload may be closed during the read
        try:
            piece = await asyncio.to_thread(os.pread, fd, length, start)
        finally:
            os.close(fd)
        if not (piece and self._link.is_open):
            raise LinkBroken
        return piece


class _SiblingsContent:
    def __init__(self, info: ContentInfo, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.info = info
        self._reader = reader
        self._writer = writer

    async def read(self, start: int, length: int) -> AsyncIterator[bytes]:
        self._writer.write(json.dumps([start, length]).encode() + b"\n")
        while length:
            piece = b""
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_SECONDS):
                    piece = await self._reader.read(min(_PIECE, length))
            if not piece:
                raise LinkBroken
            yield piece
            length -= len(piece)


async def _remote(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> _SiblingsContent:
    """Return the bytes behind a link of the process at the other end; raise `NotFound` or `TooManyRequests`."""
    try:
        async with asyncio.timeout(_SECONDS):
            writer.write(token.encode() + b"\n")
            reply = json.loads(await reader.readline())
        if reply == _BUSY:
            raise _too_many_readers()
        tenant_id, size, sha256 = reply
    except (OSError, ValueError, TimeoutError) as fault:
        raise NotFound from fault
    return _SiblingsContent(ContentInfo(tenant_id, size, sha256), reader, writer)
