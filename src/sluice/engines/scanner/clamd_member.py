"""One clamd of the pool: watched, probed, taken out of service at a fault and back into it when it is well. Who asks it is decided in `clamd_pool`."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAddress, ClamdAway, reason
from sluice.engines.scanner.clamd_answers import Said, Verdict, Version, read_version
from sluice.engines.scanner.clamd_probe import Known, Probe
from sluice.engines.scanner.clamd_scan import Scans
from sluice.engines.scanner.clamd_talk import ClamdSilent, Line, MayLeave, Patience, lasting_line
from sluice.kit.sealed import Sealed

_FIRST_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Care:
    """How a clamd is looked after, in seconds: a look every `look`, a probe every `probe`; after a fault it is left alone for up to `rest`.

    One that shows no sign of life for `give_up` is taken for dead; until then it is slow, as one is that loads signatures.
    """

    look: float = 5.0
    probe: float = 300.0
    rest: float = 5.0
    give_up: float = 120.0


class Member:
    """One clamd. `changed` is called whenever it comes into service, leaves it, or becomes slow or quick."""

    def __init__(
        self,
        address: ClamdAddress,
        patience: Patience,
        care: Care,
        *,
        folder: Path | None,
        largest: int,
        changed: Callable[[], None],
    ) -> None:
        self.address = address
        self.known: Known | None = None
        """What was found out, None while it is not in service."""
        self.fault = "it was not asked yet"
        """Why it is not in service; empty while it is."""
        self.slow = False
        self.looked_at = asyncio.Event()
        """Set when the first look has ended, well or not."""
        self._scans = Scans(address, patience)
        self._patience = patience
        self._care = care
        self._probe = Probe(self._scans, folder=folder, largest=largest)
        self._changed = changed
        self._failures = 0
        self._nudge = asyncio.Event()
        self._searching: asyncio.Task[None] | None = None

    @property
    def in_service(self) -> bool:
        """Whether it may be asked."""
        return self.known is not None and not self.fault

    async def scan(self, sealed: Sealed, may_leave: MayLeave) -> tuple[Said, Known]:
        """Answer what it says of the bytes, and what was known of it before it was asked; raises `ClamdAway` or `OSError`."""
        known = self.known
        if known is None:
            raise ClamdAway(self.fault)
        said = await self._scans.surely(sealed, by_descriptor=known.takes_descriptors, may_leave=may_leave)
        if said.verdict is Verdict.REFUSED:
            raise ClamdAway(f"it refused: {said.detail}")
        self._failures = 0
        return said, known

    def put_aside(self, fault: ClamdAway | OSError) -> None:
        """Take it out of service after a failed scan; a silent one is only slow, until its own watch says more."""
        if isinstance(fault, ClamdSilent):
            self._set_slow(slow=True)
        else:
            self._leave(fault)
            self._nudge.set()

    def nudge(self) -> None:
        """Look at it now and not at the end of a pause: somebody wants to scan and there is no other."""
        self._nudge.set()

    async def keep_watch(self) -> None:
        """Watch it until cancelled: probe it, note what it loads, find out when it is gone, and try again ever less often."""
        try:
            while True:
                try:
                    async with lasting_line(self.address, self._patience) as line:
                        await self._serve(line)
                except (ClamdAway, OSError) as fault:
                    self._leave(fault)
                self.looked_at.set()
                await self._pause()
        finally:
            self._leave(ClamdAway("the scanner was closed"))

    async def _serve(self, line: Line) -> None:
        """Keep it in service as long as the line holds; raises what ends it."""
        loop = asyncio.get_running_loop()
        probed_at = loop.time()
        self._nudge.clear()
        while True:
            version = await self._version(line)
            if self.known is None or self.known.version != version or loop.time() - probed_at >= self._care.probe:
                await self._learn(version)
                probed_at = loop.time()
            self._enter()
            await self._until_next_look(line)

    async def _version(self, line: Line) -> Version:
        """Ask for the version; one that lets us wait is slow, and dead only after long."""
        asking = asyncio.create_task(line.ask(b"VERSION"))
        try:
            await asyncio.wait({asking}, timeout=self._patience.connect)
            if not asking.done():
                self._set_slow(slow=True)
                await asyncio.wait({asking}, timeout=self._care.give_up)
            if not asking.done():
                raise ClamdAway(f"no sign of life for {self._patience.connect + self._care.give_up:g} s")
            return read_version(asking.result())
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _learn(self, version: Version) -> None:
        before = self.known
        known = await self._probe.look(version)
        if before is not None and before.reach_is_found:
            # The line held, so it is the same process with the same limits: only its signatures are new.
            names_limits = known.names_limits and before.names_limits
            known = replace(known, reach=before.reach, reach_is_found=True, names_limits=names_limits)
        self.known = known
        if not known.reach_is_found and self._searching is None:
            self._searching = asyncio.create_task(self._search(known))

    async def _search(self, known: Known) -> None:
        """Find out in the background how large a file it scans: that may take seconds, and small files need not wait for it."""
        try:
            found = await self._probe.find_reach(known)
        except (ClamdAway, OSError) as fault:
            self._searching = None
            self.put_aside(ClamdAway(f"the search for the largest file that it scans failed: {why(fault)}"))
            return
        self._searching = None
        if self.known is not None:
            self.known = replace(found, version=self.known.version)
            self._changed()

    async def _until_next_look(self, line: Line) -> None:
        """Wait for the time of the next look; raises `ClamdAway` at once when the line breaks or a scan has failed."""
        breaking = asyncio.create_task(line.broken())
        nudged = asyncio.create_task(self._nudge.wait())
        try:
            await asyncio.wait({breaking, nudged}, timeout=self._care.look, return_when=asyncio.FIRST_COMPLETED)
            if breaking.done():
                raise ClamdAway("it closed the connection")
            if nudged.done() and not self.in_service:
                raise ClamdAway(self.fault)
            self._nudge.clear()
        finally:
            for task in (breaking, nudged):
                task.cancel()
            await asyncio.gather(breaking, nudged, return_exceptions=True)

    async def _pause(self) -> None:
        seconds = min(self._care.rest, _FIRST_PAUSE * 2**self._failures)
        self._failures = min(self._failures + 1, 20)
        self._nudge.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudge.wait()

    def _enter(self) -> None:
        was_well = self.in_service and not self.slow
        self.fault, self.slow = "", False
        self.looked_at.set()
        if was_well:
            self._failures = 0  # it lasted from one look to the next
        else:
            self._changed()

    def _leave(self, fault: ClamdAway | OSError) -> None:
        self.known, self.slow, self.fault = None, False, why(fault)
        if self._searching is not None:
            self._searching.cancel()
            self._searching = None
        self._changed()

    def _set_slow(self, *, slow: bool) -> None:
        if self.slow != slow:
            self.slow = slow
            self._changed()


def why(fault: ClamdAway | OSError) -> str:
    """Answer a fault in a few words, without paths."""
    if isinstance(fault, TimeoutError):
        return "no verdict in time"
    return reason(fault) if isinstance(fault, OSError) else str(fault)
