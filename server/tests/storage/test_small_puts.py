"""Small puts without the client library: the signature, kept connections, and what each response means."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from sluice.storage.protocol import Timeouts
from sluice.storage.s3.client import S3Credentials, bucket_address
from sluice.storage.s3.small_puts import PutOutcome, SmallPuts
from tests.rows import each_row
from tests.servers import free_port

STORED = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n'
BODY = b"body"
ATTRIBUTES = {"Content-Type": "text/plain", "sha256": hashlib.sha256(BODY).hexdigest(), "sluice-put": "0a1b"}


@dataclass
class Stub:
    """A server that sends `response` to every request, and closes the connection after it if `closes`."""

    response: bytes
    closes: bool
    port: int = 0
    connections: int = 0
    heads: list[str] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        try:
            while True:
                self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
                await reader.readexactly(len(BODY))
                writer.write(self.response)
                await writer.drain()
                if self.closes:
                    break
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()
            self.closed.set()


@asynccontextmanager
async def stub(response: bytes = STORED, *, closes: bool = False) -> AsyncIterator[tuple[Stub, SmallPuts]]:
    """Run a stub and a client of it until the block ends."""
    found = Stub(response, closes)
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        found.port = server.sockets[0].getsockname()[1]
        puts = client(found.port)
        yield found, puts
        puts.close()
        await found.closed.wait()


def client(port: int, *, access_key_id: str = "AKIA", seconds: float = 5.0) -> SmallPuts:
    address = bucket_address("bucket", "us-east-1", f"http://127.0.0.1:{port}")
    credentials = S3Credentials("us-east-1", access_key_id, "secret")
    return SmallPuts(address, credentials, Timeouts(2.0, seconds))


async def test_signature_is_that_of_botocore() -> None:
    async with stub() as (server, puts):
        assert await puts.put("folder/ä b.txt", BODY, ATTRIBUTES) is PutOutcome.STORED
    first, *lines = server.heads[0].strip().split("\r\n")
    sent = dict(line.split(": ", 1) for line in lines)
    assert first == "PUT /bucket/folder/%C3%A4%20b.txt HTTP/1.1"
    authorization, _ = sent.pop("authorization"), sent.pop("content-length")
    date = sent.pop("x-amz-date")
    request = AWSRequest("PUT", f"http://{sent['host']}{first.split()[1]}", headers=sent)
    request.context["timestamp"] = date
    signer = S3SigV4Auth(Credentials("AKIA", "secret"), "s3", "us-east-1")
    request.headers["X-Amz-Date"] = date
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    assert authorization.endswith(f"Signature={signature}")


@each_row(
    "response, closes, connections",
    [(STORED, False, 1), (STORED, True, 3), (STORED + STORED, False, 3)],
    ids=["kept", "closed by the store while idle", "ended by bytes behind the response"],
)
async def test_connection_is_used_again_until_it_ends(*, response: bytes, closes: bool, connections: int) -> None:
    async with stub(response, closes=closes) as (server, puts):
        assert [await puts.put(f"{n}", BODY, ATTRIBUTES) for n in range(3)] == [PutOutcome.STORED] * 3
        assert (server.connections, len(server.heads)) == (connections, 3)


@each_row(
    "response, outcome",
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", PutOutcome.REFUSED),
        (b"HTTP/1.1 412 Precondition Failed\r\nETag: a\r\nContent-Length: 0\r\n\r\n", PutOutcome.REFUSED),
        (b"HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.2/\r\nContent-Length: 0\r\n\r\n", PutOutcome.REFUSED),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + STORED, PutOutcome.REFUSED),
        (b"HTTP/1.1 200 OK\r\nETag: " + b"a" * 70_000 + b"\r\n\r\n", PutOutcome.REFUSED),
        (b"no HTTP\r\n\r\n", PutOutcome.REFUSED),
        (b"HTTP/1.1 200 OK\r\nETag: a\r\nContent-Length: 9\r\n\r\nhalf", PutOutcome.BROKE),
        (b"", PutOutcome.BROKE),
    ],
)
async def test_only_complete_response_of_s3_means_stored(response: bytes, outcome: PutOutcome) -> None:
    async with stub(response, closes=True) as (_, puts):
        assert await puts.put("a", BODY, ATTRIBUTES) is outcome


async def test_silent_store_raises_timeout_and_an_unreachable_one_is_sent_nothing() -> None:
    async with stub(b"") as (server, _):
        with pytest.raises(TimeoutError):
            await client(server.port, seconds=0.1).put("a", BODY, ATTRIBUTES)
    assert await client(free_port()).put("a", BODY, ATTRIBUTES) is PutOutcome.NOT_SENT


async def test_line_break_in_a_value_is_not_sent() -> None:
    async with stub() as (server, puts):
        assert await puts.put("a", BODY, ATTRIBUTES) is PutOutcome.STORED
        hostile = ATTRIBUTES | {"Content-Type": "text/plain\r\nx-amz-acl: public-read"}
        assert await puts.put("b", BODY, hostile) is PutOutcome.NOT_SENT
        other = client(server.port, access_key_id="AKIA\r\nx-amz-acl: public-read")
        assert await other.put("c", BODY, ATTRIBUTES) is PutOutcome.NOT_SENT
        assert len(server.heads) == 1
