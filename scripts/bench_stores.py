"""Measure an object through each store, as a ratio to the emulator's own time for the same object.

make bench-stores ARGS="--provider azure --rounds 20"

The emulator's own time is that of one signed request with the same bytes, by a client that does nothing else. The CPU is
that of this process, without the emulator's. Ratios near 1 say that the store adds little; what the real service takes
they do not say.
"""

import argparse
import asyncio
import hashlib
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpcore

from sluice.storage import PROBES, AzureSettings, Connection, GcsSettings, ObjectStore
from sluice.storage.azure.store import open_container
from sluice_inspect.sandbox.sealed import Sealed
from tests.servers.azurite import running_azurite
from tests.servers.fake_gcs import running_fake_gcs, service_account_key

SIZES: Final = {"10 KB": 10_000, "100 MB": 100_000_000}
_CHUNK: Final = 256 * 1024

Exchange = Callable[[str, bytes | None], Awaitable[bytes]]
"""Stores the bytes under a key with one request, or returns what is there."""


@dataclass(frozen=True)
class Provider:
    """A store on its emulator, and the emulator alone."""

    store: ObjectStore
    alone: Exchange


@asynccontextmanager
async def azure(folder: Path) -> AsyncIterator[Provider]:
    """Run Azurite with one container."""
    with running_azurite(folder) as server:
        settings = AzureSettings(server.account, "account_key", endpoint_url=server.endpoint)
        container = server.fresh_container()
        store = open_container(settings, container, server.key, Connection(PROBES))
        async with httpcore.AsyncConnectionPool() as http:

            async def alone(key: str, body: bytes | None) -> bytes:
                kind = {} if body is None else {"x-ms-blob-type": "BlockBlob"}
                method = "GET" if body is None else "PUT"
                url, headers = server.signed(method, f"/{container}/{key}", {}, kind, body or b"")
                return await _exchange(http, method, url, headers, body)

            yield Provider(store, alone)
            await store.aclose()


@asynccontextmanager
async def gcs(folder: Path) -> AsyncIterator[Provider]:
    """Run fake-gcs-server with one bucket."""
    with running_fake_gcs(folder) as server:
        bucket, part = server.fresh_bucket(), Connection(PROBES).part_bytes
        settings = GcsSettings("bench@example.com", server.endpoint)
        store = settings.connect(bucket, service_account_key(), Connection(PROBES))
        async with httpcore.AsyncConnectionPool() as http:

            async def alone(key: str, body: bytes | None) -> bytes:
                if body is None:
                    return await _exchange(
                        http, "GET", f"{server.endpoint}/download/storage/v1/b/{bucket}/o/{key}", {}, None
                    )
                url = f"{server.endpoint}/upload/storage/v1/b/{bucket}/o"
                if len(body) <= part:
                    return await _exchange(http, "POST", f"{url}?uploadType=media&name={key}", {}, body)
                # In the same parts as the store: the emulator hashes all that it has with each of them.
                began = await http.request("POST", f"{url}?uploadType=resumable&name={key}", content=b"{}")
                session = next(value for name, value in began.headers if name.lower() == b"location").decode()
                for at in range(0, len(body), part):
                    piece = body[at : at + part]
                    covered = {"content-range": f"bytes {at}-{at + len(piece) - 1}/{len(body)}"}
                    await _exchange(http, "PUT", session, covered, piece)
                return b""

            yield Provider(store, alone)
            await store.aclose()


PROVIDERS: Final[Mapping[str, Callable[[Path], AbstractAsyncContextManager[Provider]]]] = {"azure": azure, "gcs": gcs}


async def _exchange(
    http: httpcore.AsyncConnectionPool, method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(body or b""), _CHUNK):
            yield (body or b"")[at : at + _CHUNK]

    sent = [*headers.items(), *([] if body is None else [("content-length", str(len(body)))])]
    response = await http.request(method, url, headers=sent, content=None if body is None else pieces())
    if response.status >= 300 and response.status != 308:  # noqa: PLR2004  (a part of an upload has arrived)
        raise SystemExit(f"the emulator responded with {response.status}: {response.content[:300]!r}")
    return response.content


@contextmanager
def _sealed(body: bytes) -> Iterator[Sealed]:
    fd = os.memfd_create("bench", os.MFD_CLOEXEC)
    try:
        left = memoryview(body)
        while left:
            left = left[os.write(fd, left) :]
        yield Sealed(fd, len(body), hashlib.sha256(body).digest())
    finally:
        os.close(fd)


@dataclass
class _Times:
    wall: list[float]
    cpu: list[float]

    async def take(self, act: Awaitable[object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        await act
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


async def _read(store: ObjectStore, key: str) -> None:
    async for _ in store.read(key):
        pass


async def measure(provider: Provider, size: int, rounds: int) -> dict[str, float]:
    """Return the medians in seconds, of pairs that take turns."""
    body = os.urandom(size)
    times = {name: _Times([], []) for name in ("put", "put alone", "get", "get alone")}
    with _sealed(body) as sealed:
        for number in range(rounds + 1):
            key = str(uuid.uuid4())
            turns: list[tuple[str, Callable[[], Awaitable[object]]]] = [
                ("put", lambda key=key: provider.store.put(key, sealed, content_type="text/plain")),
                ("put alone", lambda key=key: provider.alone(f"{key}-alone", body)),
                ("get", lambda key=key: _read(provider.store, key)),
                ("get alone", lambda key=key: provider.alone(f"{key}-alone", None)),
            ]
            for name, act in turns:
                await (times[name] if number else _Times([], [])).take(act())  # the first round only warms up
            for left in (key, f"{key}-alone"):
                await provider.store.delete(left)
    found = {name: statistics.median(each.wall) for name, each in times.items()}
    return found | {f"{name} cpu": statistics.median(times[name].cpu) for name in ("put", "get")}


async def run(name: str, rounds: int) -> None:
    """Measure one provider, and print a line for each size."""
    with tempfile.TemporaryDirectory() as folder:
        async with PROVIDERS[name](Path(folder) / "server") as provider:
            for label, size in SIZES.items():
                found = await measure(provider, size, rounds if size < 10**6 else max(3, rounds // 10))
                for act in ("put", "get"):
                    ratio = found[act] / found[f"{act} alone"]
                    own, alone, cpu = (1000 * found[each] for each in (act, f"{act} alone", f"{act} cpu"))
                    print(
                        f"{name:8} {label:>7} {act}: {ratio:5.2f} times ({own:8.2f} ms, alone {alone:8.2f}, CPU {cpu:.2f})"
                    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--provider", choices=[*PROVIDERS], action="append", help="one of them (default: all)")
    parser.add_argument("--rounds", type=int, default=50, help="objects of 10 KB; a tenth as many of 100 MB")
    chosen = parser.parse_args()
    for name in chosen.provider or PROVIDERS:
        asyncio.run(run(name, chosen.rounds))


if __name__ == "__main__":
    sys.exit(main())
