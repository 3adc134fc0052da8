"""The scanner engine `builtin`: Sluice's own few rules, run in the sandbox. Not an antivirus. The rules live in `sluice.threats`."""

from dataclasses import replace
from typing import Final

from sluice.engines.sandbox import Sandbox
from sluice.engines.scanner.own_look import Glance, LookAway, OwnLook, own_look
from sluice.engines.scanner.policy import EncryptedPolicy
from sluice.engines.scanner.protocol import Clean, Edition, Incomplete, Infected, ScanResult, Unavailable
from sluice.kit.health import EngineHealth
from sluice.kit.sealed import Sealed
from sluice.threats import RULES_VERSION

_NAME: Final = "builtin"


class BuiltinScanner:
    """Finds the EICAR test virus, disguised programs and some documents that act by themselves, in what it can unpack.

    The sandbox is lent: it is started and closed by whoever made it. `encrypted` says what a part behind a password means. A packing that
    is not known here does not make a verdict incomplete, since the rules claim no more than they are: it is noted among the flags.
    """

    name = _NAME
    edition = Edition(_NAME, RULES_VERSION)
    reach = None

    def __init__(self, sandbox: Sandbox, *, encrypted: EncryptedPolicy = "allow") -> None:
        self._sandbox = sandbox
        self._encrypted: EncryptedPolicy = encrypted

    async def scan(self, sealed: Sealed, *, tenant_id: str, glance: Glance | None = None) -> ScanResult:
        """Scan all of the bytes within the sandbox's own limits."""
        try:
            seen = None if glance is None or glance.is_left else await glance.had()
            look = seen or await own_look(self._sandbox, "scan", sealed, tenant_id=tenant_id)
        except LookAway as away:
            return Unavailable(str(away), _NAME)
        return self._result(look)

    async def health(self) -> EngineHealth:
        """Answer how the sandbox is, in which the rules run."""
        sandbox = await self._sandbox.health()
        detail = "; ".join(filter(None, ("Sluice's own few rules, not an antivirus", sandbox.detail)))
        limits = {"signatures": RULES_VERSION, "encrypted": self._encrypted, **sandbox.limits}
        return replace(sandbox, kind="scanner", name=_NAME, version=f"rules {RULES_VERSION}", detail=detail, limits=limits)

    async def aclose(self) -> None:
        """Do nothing: the sandbox is closed by its owner."""

    def _result(self, look: OwnLook) -> ScanResult:
        if look.threat is not None:
            return Infected(look.threat, _NAME, RULES_VERSION, look.ms)
        why = look.why
        if look.encrypted and not why and self._encrypted != "allow":
            why = "a part behind a password"
        if why:
            return Incomplete(why, _NAME, RULES_VERSION, look.ms)
        return Clean(_NAME, RULES_VERSION, look.ms, flags=noted(look))


def noted(look: OwnLook) -> tuple[str, ...]:
    """Answer what the record tells of a clean file."""
    unlooked = (f"unopened.{packing}" for packing in (*look.unopened, *look.foreign))
    return (*look.flags, *unlooked, *(["encrypted"] if look.encrypted else []))
