"""A loopback HTTP server that sends one fixed response, for responses that no real server can be made to send."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Canned:
    """A running server: its address, and the head of every request it received."""

    url: str
    seen: list[str] = field(default_factory=list)


@asynccontextmanager
async def answering(
    head: str, body: str = "", *, held_back: int = 0, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Canned]:
    """Respond once per connection with `head` (status, reason and header lines) and `body` until the block ends.

    Content-Length announces `held_back` more bytes than are sent.
    """
    served: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    canned = Canned("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served[task] = writer
        try:
            canned.seen.append((await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
            length = len(body) + held_back
            writer.write(f"HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}".encode())
            await writer.drain()
            writer.write_eof()
            while await reader.read(65536):  # a reset while the client still sends would discard the response
                pass
        except (OSError, EOFError):
            pass  # the client disconnected
        finally:
            writer.close()
            del served[task]

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    canned.url = f"{'https' if tls else 'http'}://{host}:{server.sockets[0].getsockname()[1]}"
    try:
        yield canned
    finally:
        server.close()
        for writer in served.values():
            writer.close()
        await asyncio.gather(*served)
        await server.wait_closed()
