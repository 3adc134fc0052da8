"""The contract of a malware scanner: the `Scanner` protocol and its results."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, Protocol, runtime_checkable

from sluice.kit.health import EngineHealth
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import RuleMatch, UnpackReport
from sluice_inspect.threats import RULES_VERSION

# Characters of a version in a file's row, together with the sign between both parts at most 160.
_MOST_TEXT: Final = 96
_MOST_OPTIONAL: Final = 63
# What a scanner makes of content behind a password; passwords are never asked for or tried. `allow`: a password does
# not make a file a bad one, so what was found in the rest decides. `incomplete`: unread content is not clean, so such
# files are refused (with clamd, only if it is set to `AlertEncrypted yes`). The default is `allow`: password-protected
# files are intact files.
EncryptedPolicy = Literal["allow", "incomplete"]


@dataclass(frozen=True, slots=True)
class EngineVersion:
    """The scope of a verdict: an engine and its version, the version of its signatures, and that of our own rules.

    `signatures` is empty if the engine has no number for them: they may then change without notice. `optional` names
    the versions of optional engines; it is empty if there are none, and while one of them is away.
    """

    engine: str
    signatures: str
    rules: str = RULES_VERSION
    optional: str = ""

    def __str__(self) -> str:
        text = _shortened(f"{self.engine}/{self.signatures}+{self.rules}", _MOST_TEXT)
        return f"{text};{_shortened(self.optional, _MOST_OPTIONAL)}" if self.optional else text

    def is_of(self, verdict: str) -> bool:
        """Return whether a verdict with this text is by this version, whatever optional engines that are away said."""
        return verdict == str(self) or (not self.optional and verdict.startswith(f"{self};"))


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most - 17]}~{blake2b(text.encode(), digest_size=8).hexdigest()}"


SingleOutcome = Literal["clean", "infected", "incomplete", "unavailable"]


@dataclass(frozen=True, slots=True)
class SingleResult:
    """What one of several scanners said. `detail` is the threat, what was not scanned, or why it is unavailable."""

    engine: str
    signatures: str
    outcome: SingleOutcome
    ms: float
    detail: str = ""
    is_required: bool = True


@dataclass(frozen=True, slots=True)
class Clean:
    """All of the bytes were scanned and nothing was found.

    `member` is the address of the daemon that gave the verdict, if there are several. `cached` marks a verdict that was
    given earlier on the same bytes by the same engine version. `flags` name what is no threat and yet worth knowing,
    such as a macro that runs on opening. `each` is what every one of several scanners said, and `rules` are the rules
    of the operator that match, here and below.
    """

    engine: str
    signatures: str
    ms: float
    member: str = ""
    cached: bool = False
    flags: tuple[str, ...] = ()
    each: tuple[SingleResult, ...] = ()
    rules: tuple[RuleMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Infected:
    """The scanner names a threat. `quarantines`: for it, a file is put in quarantine where others are rejected."""

    threat: str
    engine: str
    signatures: str
    ms: float
    member: str = ""
    each: tuple[SingleResult, ...] = ()
    rules: tuple[RuleMatch, ...] = ()
    quarantines: bool = False


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The scanner replied, but did not scan all of it: a size, recursion or time limit of its own. Never clean."""

    why: str
    engine: str
    signatures: str
    ms: float
    member: str = ""
    each: tuple[SingleResult, ...] = ()
    rules: tuple[RuleMatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ScannerUnavailable:
    """No valid reply came in time. Neither clean nor infected: the upload has to be tried again."""

    why: str
    engine: str


ScanResult = Clean | Infected | Incomplete | ScannerUnavailable


class Scanner(Protocol):
    """Looks for malware in sealed bytes."""

    name: str

    @property
    def engine_version(self) -> EngineVersion | None:
        """The scope that a verdict given now would most likely have; None if unknown. Does no I/O."""

    @property
    def scan_limit(self) -> int | None:
        """Size in bytes of the largest file that is scanned to its end; None if there is no limit or it is unknown.

        Does no I/O.
        """

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    ) -> ScanResult:
        """Scan all of the bytes within the engine's own deadline.

        Never raises for a fault of the engine: that is `ScannerUnavailable`.

        `unpack_report` is a future of the caller's, given if the sandbox checks the same bytes meanwhile, and resolved
        when it has done so. Its result is the report of the job that checked a file of up to `CHECK_AND_SCAN_BYTES` and
        scanned it too. It is None if that job did not scan, and for larger files: then the engine has the sandbox scan
        the file in a job of its own. Engines begin whatever else they do without waiting for the future, and never
        cancel it.
        """
        ...

    async def health(self) -> EngineHealth:
        """Return the engine's health: version, signature version, limits. Never raises."""
        ...

    async def aclose(self) -> None:
        """Close all connections. A second call is a no-op."""
        ...


@runtime_checkable
class FindsScanLimit(Protocol):
    """A scanner that needs time to find out its `scan_limit`."""

    async def find_scan_limit(self, seconds: float, size: int | None = None) -> None:
        """Find `scan_limit`, in at most `seconds`; do nothing if files of `size` bytes are known to be scanned."""
        ...


@runtime_checkable
class Reloads(Protocol):
    """A scanner with rules of the operator, or one that asks such a scanner."""

    def reload(self) -> None:
        """Have the rules read again soon, also if no change was noticed."""


@runtime_checkable
class HasEngines(Protocol):
    """A scanner that asks several engines."""

    @property
    def clean_results(self) -> Sequence[SingleResult]:
        """The results of all engines, also optional ones, which a cached clean verdict represents.

        Empty while one of them is away, or states no number of its signatures: then nothing may be cached.
        """
        ...

    async def healths(self) -> Sequence[EngineHealth]:
        """Return the health of every engine. Never raises."""
        ...


def clean_results_of(scanner: Scanner) -> Sequence[SingleResult]:
    """Return the results of each engine that a cached clean verdict represents; empty if none may be cached."""
    if isinstance(scanner, HasEngines):
        return scanner.clean_results
    version = scanner.engine_version
    if version is None or not version.signatures:
        return ()
    return (SingleResult(version.engine, version.signatures, "clean", 0.0),)


def version_of_all(each: Sequence[SingleResult]) -> EngineVersion | None:
    """Return the scope of a verdict that all of these engines gave, None if one of them gave none."""
    if not each or not all(one.outcome == "clean" and one.signatures for one in each):
        return None
    return joined_version([(one.engine, one.signatures) for one in each])


def version_of(each: Sequence[SingleResult]) -> EngineVersion:
    """Return the scope of a verdict that these engines gave together: of the required ones those that replied."""
    required = [(one.engine, one.signatures) for one in each if one.is_required and one.outcome != "unavailable"]
    optional = "+".join(f"{one.engine}/{one.signatures or '-'}" for one in each if not one.is_required)
    return replace(joined_version(required), optional=optional)


def joined_version(versions: Sequence[tuple[str, str]]) -> EngineVersion:
    """Return engines and signatures as one version; one without a number of its signatures leaves a dash."""
    return EngineVersion("+".join(engine for engine, _ in versions), "+".join(number or "-" for _, number in versions))


def reload_rules(scanner: Scanner) -> None:
    """Have rules of the operator read again soon, if the scanner has any."""
    if isinstance(scanner, Reloads):
        scanner.reload()


async def healths_of(scanner: Scanner) -> Sequence[EngineHealth]:
    """Return the health of a scanner, of each engine if there are several."""
    return await scanner.healths() if isinstance(scanner, HasEngines) else [await scanner.health()]
