"""The key server of an issuer: real sockets on a free loopback port, with faults on demand."""

import asyncio
from types import TracebackType
from typing import Self


class KeyServer:
    """Responds with `body` to every request.

    The faults: `status`, `headers`, `raw` (replaces the response), `gate` (waits first), `drip` (seconds per byte).
    """

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.status = "200 OK"
        self.headers: tuple[str, ...] = ()
        self.raw: bytes | None = None
        self.gate: asyncio.Event | None = None
        self.drip: float | None = None
        self.requests: list[str] = []
        self._server: asyncio.Server | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/jwks"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen on a free port; after a stop, on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self.gate is not None:
            self.gate.set()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            if self.gate is not None:
                await self.gate.wait()
            await self._send(writer, self._response() if self.raw is None else self.raw)
        except ConnectionError:
            return  # the client gave up, as some tests intend
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, response: bytes) -> None:
        if self.drip is None:
            writer.write(response)
        else:
            for place in range(len(response)):
                writer.write(response[place : place + 1])
                await writer.drain()
                await asyncio.sleep(self.drip)
        await writer.drain()

    def _response(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status}", f"Content-Length: {len(self.body)}", "Connection: close", *self.headers]
        return "\r\n".join([*lines, "", ""]).encode() + self.body
