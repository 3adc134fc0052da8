"""The memory of puts and reads: large objects are handled in pieces."""

import asyncio
import hashlib
import multiprocessing
import os
from collections.abc import AsyncIterator, Iterator
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pytest

from sluice.storage import PROBES, Connection, ObjectStore
from sluice.storage.gcs.hmac_store import HmacGcsStore
from sluice_inspect.sandbox.sealed import Sealed
from tests.servers.google_xml import ACCESS_ID, running_google_xml

MIB = 1024 * 1024
OBJECT = 96 * MIB
MOST = 64 * MIB
"""Parts in flight take 27 to 49 MiB with S3, however large the object is."""


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    """An object in an unlinked file, like a large upload in the spool."""
    path = tmp_path / "spool"
    digest = hashlib.sha256()
    with path.open("w+b") as spool:
        path.unlink()
        for _ in range(OBJECT // MIB):
            piece = os.urandom(MIB)
            digest.update(piece)
            spool.write(piece)
        spool.flush()
        yield Sealed(spool.fileno(), OBJECT, digest.digest())


async def serve_google(pipe: Pipe) -> None:
    """Run the server, which keeps objects in memory, until the other end of the pipe is closed."""
    async with running_google_xml() as google:
        pipe.send((google.url, google.secret, google.fresh_bucket()))
        await asyncio.to_thread(pipe.poll, None)


def run_google(pipe: Pipe) -> None:
    asyncio.run(serve_google(pipe))


@pytest.fixture
async def hmac_store() -> AsyncIterator[HmacGcsStore]:
    """A store whose server is not in the process that is measured."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=run_google, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    url, secret, bucket = await asyncio.to_thread(ours.recv)
    store = HmacGcsStore(bucket, ACCESS_ID, secret, Connection(probe_folder=PROBES), endpoint_url=url)
    yield store
    await store.aclose()
    ours.close()
    await asyncio.to_thread(process.join)


def peak() -> int:
    """Return the peak memory of the process since `reset_peak`, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def reset_peak() -> int:
    """Reset the peak that the kernel counts (proc(5), clear_refs) and return the memory in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


async def test_large_object_is_stored_and_read_in_bounded_memory(store: ObjectStore, sealed: Sealed) -> None:
    before = reset_peak()
    await store.put("large", sealed, content_type="application/octet-stream")
    after_put = peak() - before
    digest = hashlib.sha256()
    async for chunk in store.read("large"):
        digest.update(chunk)
    assert digest.digest() == sealed.sha256
    assert await store.size("large") == sealed.size
    assert after_put < MOST
    assert peak() - before < MOST
