"""Sanitising: what a context has taken out of a file before it is stored.

The locked child writes what is left into memory, from which it is copied into a spool of its own. It is
untrusted: it is checked and scanned as what was sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from sluice.contexts.sanitising import Sanitise
from sluice.errors import ServiceUnavailable
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads.spool import Room, Spool, SpoolRoom
from sluice.uploads.values import ReceivedFile, SanitisedFact
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.sanitising import NothingToRemove, NotSanitised, SanitisingUnavailable, sanitise


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A sanitised file and the spool that has its bytes, until `close`."""

    file: ReceivedFile
    room: Room
    all_room: SpoolRoom
    spool: Spool

    def close(self) -> None:
        """Release the bytes."""
        self.spool.close()
        self.all_room.shrink(self.room, 0)


@staged("sanitise")
async def sanitise_file(
    file: ReceivedFile,
    rule: Sanitise,
    *,
    sandbox: Sandbox,
    tenant_id: str,
    make_spool: Callable[[], Spool],
    room: SpoolRoom,
) -> tuple[SanitisedFact, SpooledFile | None]:
    """Return what was taken out of a file, and the file without it; None if it stays as it is or cannot be sanitised.

    Raise `ServiceUnavailable` if there is no worker, `SpoolBusy` or `StorageFull` if there is no room.
    """
    fact = SanitisedFact(file.sealed.sha256.hex(), file.sealed.size)
    try:
        async with sanitise(
            sandbox,
            file.sealed,
            frozenset(rule.remove),
            breaks_signatures=rule.signed == "change",
            filename=file.name.original,
            tenant_id=tenant_id,
        ) as result:
            if isinstance(result, NothingToRemove):
                return fact, None
            if isinstance(result, NotSanitised):
                return replace(fact, why=result.why), None
            spooled = SpooledFile(file, room.take_more(tenant_id, result.size), room, make_spool())
            try:
                await spooled.spool.take_file(result.fd, result.size)
                left = replace(file, sealed=await spooled.spool.seal())
            except BaseException:
                spooled.close()
                raise
            return replace(fact, removed=result.removed), replace(spooled, file=left)
    except SanitisingUnavailable as fault:
        log.warning("check_unavailable", tenant_id=tenant_id, why=str(fault))
        raise ServiceUnavailable("file checker") from fault
