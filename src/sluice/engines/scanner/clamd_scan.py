"""One scan by one clamd: the bytes handed over, the answer read. What is known of that clamd is found out in `clamd_probe`."""

from dataclasses import dataclass
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAddress
from sluice.engines.scanner.clamd_answers import Said, Verdict, read_scan
from sluice.engines.scanner.clamd_talk import MayLeave, Patience, scan_descriptor, scan_stream
from sluice.kit.sealed import Sealed

_FEWEST_REPEATS: Final = 2
_MOST_REPEATS: Final = 15
_REPEATED_BYTES: Final = 16 * 1024**2


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Scans:
    """Scans at one address. Every method raises `ClamdAway` when there is no answer that can be understood."""

    address: ClamdAddress
    patience: Patience

    async def once(self, sealed: Sealed, *, by_descriptor: bool, may_leave: MayLeave = _always) -> Said:
        """Answer what clamd says. A descriptor that it refuses is followed by the bytes."""
        if by_descriptor:
            said = read_scan(await scan_descriptor(self.address, sealed, self.patience, may_leave))
            if said.verdict is not Verdict.REFUSED:
                return said
        return read_scan(await scan_stream(self.address, sealed, self.patience, may_leave))

    async def surely(self, sealed: Sealed, *, by_descriptor: bool, may_leave: MayLeave = _always) -> Said:
        """Answer what clamd says, with nothing hidden behind a password.

        ClamAV picks one of several heuristic finds by chance: `Encrypted` hid `Limits.Exceeded` in 33 of 80 scans of such files (1.4.6),
        so they are scanned again a few times. With `AlertEncrypted no` there is nothing to pick from.
        """
        said = await self.once(sealed, by_descriptor=by_descriptor, may_leave=may_leave)
        for _ in range(_repeats(sealed.size)):
            if said.verdict is not Verdict.ENCRYPTED:
                break
            said = await self.once(sealed, by_descriptor=by_descriptor, may_leave=may_leave)
        return said


def _repeats(size: int) -> int:
    return max(_FEWEST_REPEATS, min(_MOST_REPEATS, _REPEATED_BYTES // max(1, size)))
