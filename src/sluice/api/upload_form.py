"""The upload's form: from a streaming request to an `Arrival`. Parts may come in any order. What the fields mean is judged in `uploads`."""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect, Request

from sluice.api.bodies import require_uncoded
from sluice.api.multipart import Event, PartEnd, PartStart, boundary_of, read_parts
from sluice.errors import BodyTooLarge, Invalid, Malformed, UnsupportedBody
from sluice.observe.stages import staged
from sluice.uploads.intake import LARGEST_FILE_BYTES, METADATA_BYTES, Intake
from sluice.uploads.values import Arrival

FORM_OVERHEAD_BYTES: Final = 64 * 1024
LARGEST_BODY_BYTES: Final = LARGEST_FILE_BYTES + FORM_OVERHEAD_BYTES
_FIELD_BYTES: Final = {"context": 1024, "metadata": METADATA_BYTES}


def require_acceptable(request: Request) -> str:
    """Judge the headers, before the body is asked for, and answer the boundary; raises `BodyTooLarge` or `UnsupportedBody`."""
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > LARGEST_BODY_BYTES:
        raise BodyTooLarge(LARGEST_BODY_BYTES)
    boundary = boundary_of(request.headers.get("content-type", ""))
    if boundary is None:
        raise UnsupportedBody("multipart/form-data")
    require_uncoded(request)
    return boundary


@staged("receive")
async def receive_form(request: Request, boundary: str, intake: Intake) -> Arrival:
    """Feed the form's parts to `intake` as they come and answer the whole upload."""
    form = _Form(intake)
    async for event in read_parts(_bounded(request), boundary):
        await form.take(event)
    return await intake.finish()


class _Form:
    """Where in the form we are: inside the file, inside a field that counts, or inside one that is ignored."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._seen: set[str] = set()
        self._inside: str | None = None
        self._value = b""

    async def take(self, event: Event) -> None:
        match event:
            case PartStart():
                await self._begin(event)
            case PartEnd():
                await self._end()
            case bytes() if self._inside == "file":
                await self._intake.take_bytes(event)
            case bytes():
                self._keep(event)

    async def _begin(self, part: PartStart) -> None:
        self._inside, self._value = part.name, b""
        if part.name in {"file", *_FIELD_BYTES}:
            if part.name in self._seen:
                raise Malformed(errors=[f"body: the field '{part.name}' comes twice"])
            self._seen.add(part.name)
        if part.name != "file":
            return
        if part.filename is None:
            raise Invalid("file: expected a file with a name, found a plain field")
        if not part.filename:
            raise Invalid("file: field required")
        await self._intake.begin_file(part.filename)

    def _keep(self, chunk: bytes) -> None:
        most = _FIELD_BYTES.get(self._inside or "")
        # One byte over the limit is enough to know; the rest is not kept.
        if most is not None and len(self._value) <= most:
            self._value += chunk[: most + 1 - len(self._value)]

    async def _end(self) -> None:
        inside, self._inside = self._inside, None
        if inside == "context":
            await self._intake.name_context(_text(self._value))
        elif inside == "metadata":
            self._intake.take_metadata(self._value)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as fault:
        raise Invalid("context: not UTF-8") from fault


async def _bounded(request: Request) -> AsyncIterator[bytes]:
    """Answer the body's chunks; raises `BodyTooLarge` at the limit. How fast they must come is the wire's to judge."""
    taken = 0
    try:
        async for chunk in request.stream():
            taken += len(chunk)
            if taken > LARGEST_BODY_BYTES:
                raise BodyTooLarge(LARGEST_BODY_BYTES)
            yield chunk
    except ClientDisconnect as fault:
        raise Malformed(errors=["body: ended before its announced length"]) from fault
