"""Taking an upload in: its fields in any order, its bytes into a spool, refused as soon as a rule is broken. Knows nothing of HTTP."""

from collections.abc import Callable, Mapping
from typing import Final

from sluice.access import Principal
from sluice.errors import ContextInactive, Invalid
from sluice.kit.failpoints import reach
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.observe.metrics import UPLOAD_BYTES
from sluice.uploads.decide import decide
from sluice.uploads.names import FileName, read_name
from sluice.uploads.sight import Sight
from sluice.uploads.spool import Spool
from sluice.uploads.values import Arrival, Facts, Look, Rejection

LARGEST_FILE_BYTES: Final = 500 * 1_048_576
"""The largest max_file_size_mb of any context; holds while the context is not yet known."""
METADATA_BYTES: Final = 4096


class Refused(Exception):
    """A rule was broken. Carries what the decision log needs."""

    def __init__(self, rejection: Rejection, facts: Facts, look: Look) -> None:
        super().__init__(rejection.reason.value)
        self.rejection = rejection
        self.facts = facts
        self.look = look


class Intake:
    """One upload while it comes in. Fields may come in any order; bytes beyond the cap are counted, never kept."""

    def __init__(self, principal: Principal, sight: Sight, make_spool: Callable[[], Spool]) -> None:
        self._principal = principal
        self._sight = sight
        self._make_spool = make_spool
        self._spool: Spool | None = None
        self._look: Look | None = None
        self._name: FileName | None = None
        self._size = 0
        self._metadata: Mapping[str, object] = {}
        self._problems: list[str] = []

    async def name_context(self, context_key: str) -> None:
        """Take the context; raises `NotFound`, `ContextInactive`, or `Refused` when what has come already breaks its rules."""
        look = await self._sight.glance(self._principal.tenant_id, context_key)
        if look.remembered and look.context.status != "active":
            look = await self._sight.look(self._principal.tenant_id, context_key)
        if look.context.status != "active":
            raise ContextInactive
        self._look = look
        await self._judge()

    async def begin_file(self, sent_name: str) -> None:
        """Take the file's name; raises `Invalid` or `Refused`."""
        self._name = read_name(sent_name)
        await self._judge()
        self._spool = self._make_spool()

    async def take_bytes(self, chunk: bytes) -> None:
        """Take the file's next bytes; raises `Refused` as soon as they are too many, and `StorageFull`."""
        if self._spool is None:
            raise Invalid("file: bytes came before the file's name")
        self._size += len(chunk)
        if self._size > self._cap:
            await self._judge()
        if self._size <= self._cap:
            await self._spool.write(chunk)

    def take_metadata(self, raw: bytes) -> None:
        """Take the metadata. What is wrong with it is told by `finish`, together with all other problems."""
        if len(raw) > METADATA_BYTES:
            self._problems.append(f"metadata: expected at most {METADATA_BYTES} bytes, found more")
            return
        try:
            value = read_json(raw)
        except NotStrictJson as fault:
            self._problems.append(f"metadata: {fault}")
            return
        if isinstance(value, dict):
            self._metadata = value
        else:
            self._problems.append("metadata: expected a JSON object")

    async def finish(self) -> Arrival:
        """Seal what has come; raises `Invalid` with every problem of the form."""
        if self._name is None:
            self._problems.insert(0, "file: field required")
        if self._look is None:
            self._problems.append("context: field required")
        if self._problems or self._name is None or self._look is None or self._spool is None:
            raise Invalid(*self._problems)
        await self._judge()
        sealed = await self._spool.seal()
        UPLOAD_BYTES.inc(sealed.size)
        reach("receive.sealed")
        return Arrival(self._principal, self._look, self._name, sealed, self._metadata)

    def close(self) -> None:
        """Let go of the bytes. A second call is a no-op."""
        if self._spool is not None:
            self._spool.close()

    @property
    def _cap(self) -> int:
        return LARGEST_FILE_BYTES if self._look is None else self._look.rules.max_bytes

    async def _judge(self) -> None:
        """Refuse what breaks the rules; where they are only remembered, look whether they still hold."""
        if self._look is None or self._name is None:
            return
        facts = Facts(self._name.original, self._name.extension, self._size)
        rejection = decide(facts, self._look.rules)
        if rejection is not None and self._look.remembered:
            self._look = await self._sight.look(self._look.context.tenant_id, self._look.context.context_key)
            rejection = decide(facts, self._look.rules)
        if rejection is not None:
            raise Refused(rejection, facts, self._look)
