"""The contract of an object store. No engine lives here.

Keys are relative, `/`-separated, never begin or end with `/`, hold no empty, `.` or `..` segment, and are never reused.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, runtime_checkable

from sluice.kit.health import EngineHealth
from sluice.kit.sealed import Sealed


class StoreFault(Exception):
    """The store did not do what was asked, and may do so later: away, refused, timed out. `str()` is one safe sentence."""


class StoreAway(StoreFault):
    """The store does not answer, or refuses everything that is asked of it: the next request is likely to fare no better."""


class StoreFull(StoreFault):
    """The store has no room left."""


class ObjectStore(Protocol):
    """Whole objects by key. Every method raises `StoreFault` when the store cannot be used, and nothing else."""

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:
        """Store all of the bytes under `key`, durably and all or nothing: when this returns they survive a crash."""
        ...

    def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Answer the object's bytes from `start`, at most `length` of them, in chunks of at most 1 MiB.

        Iterating raises `KeyError` when there is no such object.
        """
        ...

    async def size(self, key: str) -> int | None:
        """Answer the object's size in bytes, or None when there is no such object."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object. A missing object is a no-op."""
        ...

    async def probe(self) -> None:
        """Put, read and delete one small object under a key of its own; raises `StoreFault` with a sentence a person can act on."""
        ...

    async def health(self) -> EngineHealth:
        """Answer how the store is. Never raises."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...


@runtime_checkable
class PutsAhead(Protocol):
    """A store to which large objects may go while it is not yet known whether they may be there at all."""

    def takes_ahead(self, size: int) -> bool:
        """Say whether an object of `size` bytes could begin to go at once."""
        ...

    async def put_ahead(self, key: str, sealed: Sealed, *, content_type: str, allowed: "asyncio.Future[bool]") -> None:
        """Put, but make the object appear only once `allowed`; raises `StoreFault`, with nothing left behind, when it is not."""
        ...


@runtime_checkable
class SweepsLeftovers(Protocol):
    """A store that a crash can leave unfinished objects in, outside every key."""

    async def sweep(self, *, older_than_seconds: float) -> int:
        """Remove what was begun longer ago than that and never finished; answer how many. Raises `StoreFault`."""
        ...


@runtime_checkable
class AbortsStaleParts(Protocol):
    """A store that keeps, and bills, the parts of uploads that nobody completed or aborted."""

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Abort uploads that began longer ago than that under keys below `prefix` that `is_ours` knows; answer how many.

        Raises `StoreFault`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Listed:
    """One object of a listing; `size` is in bytes."""

    key: str
    size: int


@runtime_checkable
class ListsObjects(Protocol):
    """A store that can say what it holds, for comparing it with what it should hold."""

    def listed(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Listed]]:
        """Answer the objects below the folder `prefix` (empty: all) whose keys come after `after`, in the order of their UTF-8, batch by batch.

        Objects that come or go meanwhile may be in it or not. Iterating raises `StoreFault`.
        """
        ...

    async def is_ours(self, key: str) -> bool:
        """Say whether this service has put the object there; False for a missing one. Raises `StoreFault`."""
        ...


@runtime_checkable
class PresignsDownloads(Protocol):
    """A store that hands out download links of its own. Links of other stores are signed and served by the service."""

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Answer a URL that downloads the object as an attachment named `filename` for `expires_in` seconds."""
        ...
