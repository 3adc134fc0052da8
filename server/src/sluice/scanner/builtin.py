"""The scanner engine `builtin`: Sluice's own few rules, run in the sandbox. Not an antivirus.

The rules are in `sluice_inspect.threats`.
"""

import asyncio
from typing import Final

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.protocol import (
    Clean,
    EncryptedPolicy,
    EngineVersion,
    Incomplete,
    Infected,
    ScannerUnavailable,
    ScanResult,
)
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport, UnpackUnavailable, unpack
from sluice_inspect.threats import RULES_VERSION

_NAME: Final = "builtin"
_NO_ANTIVIRUS: Final = "Sluice's own few rules, not an antivirus: start clamd, and set SLUICE_CLAMD to its address"


class BuiltinScanner:
    """Finds the EICAR test virus, disguised programs and some documents that run code on opening.

    `sandbox` is started and closed by the caller. `encrypted` is the policy on parts behind a password. A packing that
    is unknown here does not make a verdict incomplete, since the rules claim to cover no more than they do: it is noted
    among the flags.
    """

    name = _NAME
    engine_version = EngineVersion(_NAME, RULES_VERSION)
    scan_limit = None

    def __init__(self, sandbox: Sandbox, *, encrypted: EncryptedPolicy = "allow") -> None:
        self._sandbox = sandbox
        self._encrypted: EncryptedPolicy = encrypted

    async def scan(
        self,
        sealed: Sealed,
        *,
        tenant_id: str,
        unpack_report: "asyncio.Future[UnpackReport | None] | None" = None,
    ) -> ScanResult:
        """Scan all of the bytes within the sandbox's own limits."""
        report = None
        # The check of a larger file does not scan it, so there is nothing to wait for.
        if unpack_report is not None and sealed.size <= CHECK_AND_SCAN_BYTES:
            report = await asyncio.shield(unpack_report)
        if report is None:
            try:
                report = await unpack(self._sandbox, "scan", sealed, tenant_id=tenant_id)
            except UnpackUnavailable as error:
                return ScannerUnavailable(str(error), _NAME)
        if report.threat is not None:
            return Infected(report.threat, _NAME, RULES_VERSION, report.ms)
        why = report.why
        if report.encrypted and not why and self._encrypted != "allow":
            why = "a part behind a password"
        if why:
            return Incomplete(why, _NAME, RULES_VERSION, report.ms)
        unopened = map("unopened.{}".format, (*report.unopened, *report.foreign))
        flags = (*report.flags, *unopened, *(("encrypted",) if report.encrypted else ()))
        return Clean(_NAME, RULES_VERSION, report.ms, flags=flags)

    async def health(self) -> EngineHealth:
        """Return the health of the sandbox, in which the rules run; at best `degraded`, since they are no antivirus."""
        sandbox = await self._sandbox.health()
        state = EngineState.DOWN if sandbox.state == "down" else EngineState.DEGRADED
        detail = "; ".join(filter(None, (_NO_ANTIVIRUS, sandbox.detail)))
        limits = {"signatures": RULES_VERSION, "encrypted": self._encrypted, **sandbox.limits}
        version = f"rules {RULES_VERSION}"
        return EngineHealth("scanner", _NAME, state, version=version, detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Do nothing: the caller closes the sandbox."""
