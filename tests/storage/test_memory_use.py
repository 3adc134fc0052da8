"""Large objects pass through in pieces: the process grows by a few parts, whatever the size of the object."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.engines.storage import ObjectStore
from sluice.kit.sealed import Sealed

MIB = 1024 * 1024


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    """64 MiB in a file without a name, as the spool keeps what is large."""
    path = tmp_path / "spool"
    digest = hashlib.sha256()
    with path.open("w+b") as spool:
        path.unlink()
        for _ in range(64):
            piece = os.urandom(MIB)
            digest.update(piece)
            spool.write(piece)
        spool.flush()
        yield Sealed(spool.fileno(), 64 * MIB, digest.digest())


def peak() -> int:
    """Answer the most memory that the process has held since `reset_peak`, in bytes."""
    return next(
        int(line.split()[1]) * 1024 for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")
    )


def reset_peak() -> int:
    """Let the kernel count the peak anew, and answer it: what is held now (proc(5), clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


async def test_a_large_object_goes_in_and_out_in_bounded_memory(store: ObjectStore, sealed: Sealed) -> None:
    before = reset_peak()
    await store.put("large", sealed, content_type="application/octet-stream")
    after_put = peak() - before
    digest = hashlib.sha256()
    async for chunk in store.read("large"):
        digest.update(chunk)
    assert digest.digest() == sealed.sha256
    assert await store.size("large") == sealed.size
    assert after_put < 48 * MIB
    assert peak() - before < 48 * MIB
