"""The form of an upload while it comes in: its fields and its bytes, in any order."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from sluice.errors import Invalid
from sluice.kit.failpoints import failpoint
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.observe.metrics import UPLOAD_BYTES
from sluice.uploads.names import FileName, read_name
from sluice.uploads.spool import ROOMLESS_BYTES, Room, Spool, SpoolRoom
from sluice.uploads.values import ReceivedFile

METADATA_BYTES: Final = 4096


class UploadForm:
    """Takes the parts of one form and is sealed once. Close it in any case."""

    def __init__(self, make_spool: Callable[[], Spool], room: SpoolRoom, tenant_id: str, announced_bytes: int) -> None:
        """`announced_bytes` is the most that will come, by the head of the request."""
        self.name: FileName | None = None
        self.size = 0
        self.is_whole = False  # whether all bytes of the file came
        self._make_spool = make_spool
        self._spool: Spool | None = None
        self._all_room = room
        self._room: Room | None = None
        self._tenant_id = tenant_id
        self._announced_bytes = announced_bytes
        self._metadata: Mapping[str, object] = {}
        self._problems: list[str] = []

    def take_name(self, sent_name: str) -> None:
        """Take the name of the file; raise `Invalid`."""
        self.name = read_name(sent_name)

    def announce(self, sent_name: str, *, has_context: bool) -> FileName:
        """Return the name of a file whose bytes do not come with this form; raise `Invalid` with every problem."""
        self.take_name(sent_name)
        if not has_context:
            self._problems.append("context: field required")
        if self._problems or self.name is None:
            raise Invalid(*self._problems)
        return self.name

    def start_file(self) -> None:
        """Open the spool for the file's bytes."""
        self._spool = self._make_spool()

    def count(self, chunk: bytes) -> None:
        """Count the next bytes; raise `Invalid` if the file has no name yet."""
        if self._spool is None:
            raise Invalid("file: bytes came before the file's name")
        self.size += len(chunk)

    async def keep(self, chunk: bytes, most_bytes: int) -> None:
        """Keep bytes that were counted, unless the file has more than `most_bytes`.

        Raise `SpoolBusy` if there is no room for what the file may become, or `StorageFull`.
        """
        if self._spool is None or self.size > most_bytes:
            return
        if self._room is None and self.size > ROOMLESS_BYTES:
            self._room = await self._all_room.take(self._tenant_id, min(most_bytes, self._announced_bytes))
        await self._spool.write(chunk)

    async def fill(self, size: int, most_bytes: int, fill: Callable[[Spool], Awaitable[None]]) -> None:
        """Take all `size` bytes at once, which `fill` writes, unless there are more than `most_bytes`.

        Raise `SpoolBusy` if there is no room for them, and `Invalid` if the file has no name yet.
        """
        if self._spool is None:
            raise Invalid("file: bytes came before the file's name")
        self.size = size
        if size > most_bytes:
            return
        if size > ROOMLESS_BYTES:
            self._room = await self._all_room.take(self._tenant_id, size)
        await fill(self._spool)

    def take_metadata(self, raw: bytes) -> None:
        """Take the metadata.

        What is wrong with it is reported by `seal`, together with all other problems of the form.
        """
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

    async def seal(self, *, has_context: bool) -> ReceivedFile:
        """Return the whole form; raise `Invalid` with every problem of it."""
        if self.name is None:
            self._problems.insert(0, "file: field required")
        if not has_context:
            self._problems.append("context: field required")
        if self._problems or self.name is None or self._spool is None:
            raise Invalid(*self._problems)
        sealed = await self._spool.seal()
        if self._room is not None:
            self._all_room.shrink(self._room, sealed.size)
        UPLOAD_BYTES.inc(sealed.size)
        failpoint("receive.sealed")
        return ReceivedFile(self.name, sealed, self._metadata)

    def close(self) -> None:
        """Release the bytes. A second call is a no-op."""
        if self._spool is not None:
            self._spool.close()
        if self._room is not None:
            self._all_room.put_back(self._room)
            self._room = None
