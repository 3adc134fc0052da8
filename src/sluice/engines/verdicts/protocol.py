"""The contract of a cache of clean verdicts. No engine lives here."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from sluice.kit.health import EngineHealth

_IDENTITY_BYTES = 32


@dataclass(frozen=True, slots=True)
class VerdictKey:
    """What a verdict holds for: the bytes (a raw SHA-256), an engine with its version, its signatures, and `terms`.

    `terms` is all else that a verdict depends on, such as the policy on passwords: under other terms it is another verdict.
    """

    sha256: bytes
    engine: str
    signatures: str
    terms: str

    @property
    def identity(self) -> bytes:
        """The key as 32 bytes. Each part is hashed with its length before it, so that no two keys are written alike."""
        parts = (self.sha256, self.engine.encode(), self.signatures.encode(), self.terms.encode())
        return blake2b(b"".join(len(part).to_bytes(4, "big") + part for part in parts), digest_size=_IDENTITY_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Cleared:
    """A clean verdict. There is no word for any other: what is infected, or was not looked at, is scanned again each time.

    `member` is the daemon that gave it, empty where there is none; `flags` are those of `Clean`.
    """

    member: str = ""
    flags: tuple[str, ...] = ()


class VerdictCache(Protocol):
    """Keeps a bounded number of clean verdicts for a bounded time. It may forget any of them at any time, and never raises."""

    name: str

    async def find(self, key: VerdictKey) -> Cleared | None:
        """Answer the verdict that was kept under exactly this key; None where there is none, or the cache is away."""
        ...

    async def keep(self, key: VerdictKey, cleared: Cleared) -> None:
        """Keep a verdict, in the place of another where there is no room. A no-op while the cache is away."""
        ...

    async def health(self) -> EngineHealth:
        """Answer how the engine is. One that is away is `degraded`: scans take longer and nothing else happens."""
        ...

    async def aclose(self) -> None:
        """Let go of connections. A second call is a no-op."""
        ...
