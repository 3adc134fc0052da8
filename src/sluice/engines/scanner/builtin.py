"""The scanner engine `builtin`: Sluice's own few rules, run in the sandbox. Not an antivirus. The rules live in `sluice.threats`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sluice.engines.health import EngineHealth
from sluice.engines.sandbox import Away, Died, Overran, Ran, Sandbox
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Clean, Edition, Incomplete, Infected, ScanResult, Unavailable
from sluice.kit.sealed import Sealed
from sluice.threats import RULES_VERSION

_NAME: Final = "builtin"
_MOST_TEXT: Final = 500
_FIELDS: Final = frozenset({"threat", "complete", "why", "signatures", "encrypted"})


class BuiltinScanner:
    """Finds the EICAR test virus and disguised programs in what it can unpack; a child process of the sandbox does the looking.

    The sandbox is lent: it is started and closed by whoever made it. `encrypted` says what a zip member behind a password means.
    """

    name = _NAME
    edition = Edition(_NAME, RULES_VERSION)
    reach = None

    def __init__(self, sandbox: Sandbox, *, encrypted: EncryptedPolicy = "allow") -> None:
        self._sandbox = sandbox
        self._encrypted: EncryptedPolicy = encrypted

    async def scan(self, sealed: Sealed, *, tenant_id: str) -> ScanResult:
        """Scan all of the bytes within the sandbox's own limits.

        The file's name takes no part: the verdict is one on the bytes, and holds for them wherever they turn up again.
        """
        ran = await self._sandbox.run("scan", sealed, filename="", tenant_id=tenant_id)
        if isinstance(ran, Away):
            return Unavailable(ran.why, _NAME)
        if isinstance(ran, Died):
            return Incomplete(f"the scan ended early: {ran.why}", _NAME, RULES_VERSION, ran.ms)
        if isinstance(ran, Overran):
            return Incomplete(f"the scan was stopped at its {ran.limit} limit", _NAME, RULES_VERSION, ran.ms)
        return self._read(ran)

    async def health(self) -> EngineHealth:
        """Answer how the sandbox is, in which the rules run."""
        sandbox = await self._sandbox.health()
        detail = "; ".join(filter(None, ("Sluice's own few rules, not an antivirus", sandbox.detail)))
        return replace(sandbox, kind="scanner", name=_NAME, version=f"rules {RULES_VERSION}", detail=detail)

    async def aclose(self) -> None:
        """Do nothing: the sandbox is closed by its owner."""

    def _read(self, ran: Ran) -> ScanResult:
        """Answer what the child said, unless it cannot have said so: a file may have taken it over."""
        try:
            threat, why, encrypted = _checked(ran.payload)
        except ValueError as lie:
            return Incomplete(str(lie), _NAME, RULES_VERSION, ran.ms)
        if threat is not None:
            return Infected(threat, _NAME, RULES_VERSION, ran.ms)
        if encrypted and not why and self._encrypted != "allow":
            why = "a member behind a password"
        return Incomplete(why, _NAME, RULES_VERSION, ran.ms) if why else Clean(_NAME, RULES_VERSION, ran.ms)


def _checked(payload: Mapping[str, object]) -> tuple[str | None, str, bool]:
    """Answer threat, why it is incomplete, and whether a password was met; raises `ValueError` for what `scan_source` cannot answer."""
    threat, complete, why, encrypted = (payload.get(name) for name in ("threat", "complete", "why", "encrypted"))
    if set(payload) != _FIELDS or payload["signatures"] != RULES_VERSION:
        raise ValueError("the scan answered with other fields than it has")
    if not isinstance(complete, bool) or not isinstance(encrypted, bool) or not _is_text(why):
        raise ValueError("the scan answered with values that are none")
    if threat is not None and not _is_text(threat):
        raise ValueError("the scan answered with a threat without a name")
    if complete != (threat is None and why == ""):
        raise ValueError("the scan contradicted itself")
    return (None if threat is None else str(threat)), str(why), encrypted


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT and (value == "" or value.isprintable())
