"""The snapshot that an upload is judged by: its caller, context, bucket and plan as of its begin.

Both are read through caches, so that small uploads cost two statements instead of four. A cached value may be older
than the upload. It is therefore read again before anything is refused, when the reserving statement finds other
versions, and in any case once the upload has lasted `_CONFIRM_AFTER_SECONDS`, or `_CONFIRM_RECEIVED_AFTER_SECONDS` if
its bytes are all there by then: so what changes later, while a slow body comes in, changes nothing for this upload,
cached or not. What was judged by a value that turns out to be stale is judged once more (docs/decisions/0013).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, Generic, Self, TypeVar

from sluice.access import Principal
from sluice.api_keys.limits import require_context
from sluice.db.database import Database, DatabaseUnavailable
from sluice.errors import ContextInactive, Invalid, NotFound, SluiceError
from sluice.kit.read_through_cache import Cached, ReadThroughCache
from sluice.kit.text import is_plain
from sluice.uploads import repository
from sluice.uploads.values import ContextSnapshot, Usage

_CONFIRM_AFTER_SECONDS: Final = 0.1
_CONFIRM_RECEIVED_AFTER_SECONDS: Final = 1.0  # on a busy machine most small uploads are stored after 0.1 s
T = TypeVar("T")

# Reads a context of a tenant by its key, if there is one.
LoadContext = Callable[[str, str], Awaitable[ContextSnapshot | None]]
# Returns the caller as read at the given moment or later; raises `Unauthenticated` or `ScopeMissing`.
ReadPrincipal = Callable[[float], Awaitable[Cached[Principal]]]


class StaleSnapshot(Exception):
    """The upload was judged by values that had changed before it began."""


class SnapshotCache:
    """Contexts with their bucket and plan, cached for `seconds`."""

    def __init__(self, load: LoadContext, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self._load = load
        self._contexts: ReadThroughCache[tuple[str, str], ContextSnapshot] = ReadThroughCache(
            self._read,
            capacity=1000,  # a context may hold 64 KiB of metadata
            lifetime_seconds=seconds,
        )

    @classmethod
    def of(cls, database: Database, *, seconds: float) -> Self:
        """Return a cache of the contexts in `database`."""
        return cls(partial(repository.load_snapshot, database), seconds=seconds)

    async def get(self, tenant_id: str, context_key: str, *, since: float) -> Cached[ContextSnapshot]:
        """Return a context as read at `since` or later; raise `NotFound`."""
        return await self._contexts.get((tenant_id, context_key), since=since)

    async def _read(self, key: tuple[str, str]) -> ContextSnapshot:
        tenant_id, context_key = key
        found = await self._load(tenant_id, context_key) if is_plain(context_key) else None
        if found is None:
            raise NotFound
        return found


class UploadSnapshot:
    """The caller and the context of an upload, when each was named. Close it when the upload ends."""

    def __init__(
        self, cache: SnapshotCache, principal: Cached[Principal], read_principal: ReadPrincipal, *, began: float
    ) -> None:
        """`began` is on the monotonic clock; `principal` may have been read before it."""
        self.principal = principal.value
        self.context: ContextSnapshot | None = None  # while it has not been named
        self.is_received = False
        """Whether all bytes of the upload have come."""
        self._cache = cache
        self._began = began
        self._principal = _AsOf(principal, read_principal, began)
        self._context: _AsOf[ContextSnapshot] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._confirm_in(_CONFIRM_AFTER_SECONDS)

    @property
    def named(self) -> ContextSnapshot:
        """The context of an upload that has named it. Raise `RuntimeError` before that."""
        if self.context is None:
            raise RuntimeError("the context has not been named")
        return self.context

    async def name_context(self, context_key: str) -> None:
        """Read the context; raise `NotFound` or `ContextInactive`.

        Raise `Invalid` if a token is for another context, `KeyLimited` if the caller's key may not use this one.
        """
        permit = self.principal.permit
        if permit is not None and context_key != permit.context_key:
            raise Invalid("context: this upload token is for another context")
        allowed = self.principal.limits.contexts
        if allowed and context_key not in allowed:
            await self.confirm_caller()
            require_context(self.principal, context_key)
        if self.context is not None:
            return  # the context of an upload token is read before the form names it
        tenant_id, began = self.principal.tenant_id, time.monotonic()

        async def read(since: float) -> Cached[ContextSnapshot]:
            return await self._cache.get(tenant_id, context_key, since=since)

        found = await read(began - self._cache.seconds)
        if found.value.context.status != "active":
            found = await read(began)
        self.context = _require_active(found.value).narrowed(permit)
        self._context = _AsOf(found, read, began)
        if self._timer is None:
            self._confirm_in(_CONFIRM_AFTER_SECONDS)

    async def confirm(self) -> bool:
        """Read again what may be older than the upload; return whether anything was stale.

        Raise what the caller or the context is refused with: `Unauthenticated`, `ScopeMissing`, `KeyLimited`,
        `NotFound`, `ContextInactive`.
        """
        caller = self.principal
        await self.confirm_caller()
        is_stale = self.principal != caller
        if self._context is not None:
            context, confirmed = self.named, _require_active(await self._context.confirm())
            self.context = confirmed.narrowed(self.principal.permit)
            is_stale |= not self.context.has_versions_of(context)
        return is_stale

    async def confirm_caller(self) -> None:
        """Read the caller again; raise `Unauthenticated`, `ScopeMissing` or `KeyLimited`."""
        self.principal = await self._principal.confirm()
        if self.context is not None:
            require_context(self.principal, self.context.context.context_key)

    async def require_current(self) -> None:
        """Raise `StaleSnapshot` if the upload was judged by values that had changed before it began."""
        if await self.confirm():
            raise StaleSnapshot

    async def read_usage(self) -> Usage:
        """Return how much of plan and quota is used now."""
        context = self.named.context
        now = time.monotonic()
        return (await self._cache.get(context.tenant_id, context.context_key, since=now)).value.usage

    async def retry_if_stale(self, attempt: Callable[[Principal, ContextSnapshot], Awaitable[T]]) -> T:
        """Return what `attempt` returns; call it once more, with values read again, if it raises `StaleSnapshot`."""
        try:
            return await attempt(self.principal, self.named)
        except StaleSnapshot:
            return await attempt(self.principal, self.named)

    def close(self) -> None:
        """Stop reading in the background. A second call is a no-op."""
        if self._timer is not None:
            self._timer.cancel()
        self._principal.close()
        if self._context is not None:
            self._context.close()

    def _confirm_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._confirm_in_background)

    def _confirm_in_background(self) -> None:
        self._timer = None
        left = self._began + _CONFIRM_RECEIVED_AFTER_SECONDS - time.monotonic()
        if self.is_received and left > 0:
            self._confirm_in(left)
            return
        self._principal.start_reading()
        if self._context is not None:
            self._context.start_reading()


class _AsOf(Generic[T]):
    """A value as of `began`. A cached one that is older is read again."""

    def __init__(self, cached: Cached[T], read: Callable[[float], Awaitable[Cached[T]]], began: float) -> None:
        self._read = read
        self._began = began
        self._confirmed = cached if cached.read_at >= began else None
        self._refused: SluiceError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def confirm(self) -> T:
        """Return the value that held at `began`. A refusal by `read` is final and raised by each call."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        if self._refused is not None:
            raise self._refused
        confirmed = self._confirmed or await self._read_now()
        self.close()
        return confirmed.value

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def start_reading(self) -> None:
        """Read in the background what is not confirmed; what fails then is raised by `confirm`."""
        if self._confirmed is None and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_in_background())

    async def _read_in_background(self) -> None:
        with suppress(SluiceError, DatabaseUnavailable):  # `confirm` raises the first, and reads again after the other
            await self._read_now()

    async def _read_now(self) -> Cached[T]:
        try:
            self._confirmed = await self._read(self._began)
        except SluiceError as refused:
            self._refused = refused
            raise
        return self._confirmed


def _require_active(snapshot: ContextSnapshot) -> ContextSnapshot:
    if snapshot.context.status != "active":
        raise ContextInactive
    return snapshot
