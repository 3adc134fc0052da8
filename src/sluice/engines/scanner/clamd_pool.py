"""Several clamds as one: each scan goes to one that is well and has room, and to another when that fails. Results are made in `clamd`."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAddress, ClamdAway
from sluice.engines.scanner.clamd_answers import Said
from sluice.engines.scanner.clamd_member import Care, Member, why
from sluice.engines.scanner.clamd_places import Places, Want
from sluice.engines.scanner.clamd_probe import Known
from sluice.engines.scanner.clamd_talk import Patience
from sluice.kit.sealed import Sealed

SMALL_BYTES: Final = 4 * 1024**2
_GRACE_SECONDS: Final = 1.0
"""So long a scan waits for any clamd to come back. One that was restarted needs no longer than that when its signatures are few."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """A verdict takes at most `base` seconds plus the size divided by `bytes_per_second`, never more than `most`; waiting included."""

    base: float = 30.0
    bytes_per_second: float = 4_000_000.0
    most: float = 300.0

    def of(self, size: int) -> float:
        """Answer the seconds for a file of `size` bytes."""
        return min(self.most, self.base + size / self.bytes_per_second)


@dataclass(frozen=True, slots=True)
class Heard:
    """What one clamd said, and what was known of it."""

    said: Said
    known: Known
    address: str
    ms: float


class NoVerdict(Exception):
    """No clamd gave an answer that can be understood in time. `str()` says why, one reason for each that was asked."""


class ClamdPool:
    """The clamds at `addresses`; raises `ValueError` for an address that is none, and for no address.

    `concurrency` scans are under way at each. `largest` is the size in bytes of the largest file that will ever be scanned: whether it is
    scanned to its end is tried out, with test files in `folder`.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        patience: Patience,
        care: Care,
        deadlines: Deadlines,
        *,
        concurrency: int,
        largest: int,
        folder: Path | None,
    ) -> None:
        if not addresses:
            raise ValueError("a clamd scanner needs at least one address")
        self.members = [
            Member(ClamdAddress.parse(text), patience, care, folder=folder, largest=largest, changed=self._on_change)
            for text in addresses
        ]
        self.places: Places[Member] = Places(self.members, concurrency)
        self._deadlines = deadlines
        self._watches: list[asyncio.Task[None]] = []
        self._changed: asyncio.Future[None] | None = None
        self._closed = False

    async def start(self) -> None:
        """Look at every clamd once and watch them from now on; returns when each first look has ended, well or not."""
        if self._closed:
            return
        self._watch()
        await asyncio.gather(*(member.looked_at.wait() for member in self.members))

    async def reach_found(self) -> None:
        """Wait until it is known how large a file is scanned by each clamd that is in service."""
        while any(member.known is not None and not member.known.reach_is_found for member in self.members):
            await self._next_change()

    async def ask(self, sealed: Sealed, *, tenant_id: str) -> Heard:
        """Answer what a clamd says of the bytes; raises `NoVerdict`."""
        if self._closed:
            raise NoVerdict("the scanner was closed")
        self._watch()
        allowed = self._deadlines.of(sealed.size)
        whys: dict[Member, str] = {}
        try:
            async with asyncio.timeout(allowed):
                return await self._ask_somebody(sealed, tenant_id, whys)
        except TimeoutError:
            whys = whys or {member: f"{member.address}: {member.fault}" for member in self.members if member.fault}
            raise NoVerdict("; ".join([f"no verdict within {allowed:g} s", *whys.values()])) from None

    async def aclose(self) -> None:
        """End the watches. A second call is a no-op."""
        self._closed = True
        for watch in self._watches:
            watch.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        self._watches.clear()

    async def _ask_somebody(self, sealed: Sealed, tenant_id: str, whys: dict[Member, str]) -> Heard:
        small = sealed.size <= SMALL_BYTES
        while True:
            want = Want(tenant_id, small, frozenset(whys))
            member = await self.places.take(want)
            if member is None:
                await self._wait_for_a_return(want, whys)
                continue
            try:
                return await self._ask(member, sealed, want)
            except asyncio.CancelledError:
                whys[member] = f"{member.address}: it was still at work"
                raise
            except (ClamdAway, OSError) as fault:
                whys[member] = f"{member.address}: {why(fault)}"
                if not isinstance(fault, TimeoutError):
                    member.put_aside(fault)
            finally:
                self.places.give(want, member)

    async def _ask(self, member: Member, sealed: Sealed, want: Want[Member]) -> Heard:
        began = time.perf_counter()
        others = Want(want.tenant_id, want.small, want.tried | {member})
        said, known = await member.scan(sealed, lambda: self.places.offers_quick(others))
        return Heard(said, known, str(member.address), (time.perf_counter() - began) * 1000)

    async def _wait_for_a_return(self, want: Want[Member], whys: dict[Member, str]) -> None:
        """Return when a clamd that was not tried is in service; raises `NoVerdict` when none is, soon."""
        await self._first_looks(want)
        for member in [] if whys else self.members:
            member.nudge()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if whys else _GRACE_SECONDS):
                while not self.places.offers(want):
                    await self._next_change()
                return
        untried = (f"{member.address}: {member.fault}" for member in self.members if member not in whys)
        raise NoVerdict("; ".join([*whys.values(), *untried]))

    async def _first_looks(self, want: Want[Member]) -> None:
        while not self.places.offers(want) and not all(member.looked_at.is_set() for member in self.members):
            await self._next_change()

    def _watch(self) -> None:
        if not self._watches and not self._closed:
            self._watches = [asyncio.create_task(member.keep_watch()) for member in self.members]

    def _on_change(self) -> None:
        self.places.look_again()
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def _next_change(self) -> None:
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)
