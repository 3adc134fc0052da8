"""The client without input and output: calls become requests, responses become models or errors.

Work is a generator, a `Flow`: it yields steps (a request to send, seconds to sleep, bytes to read) and is sent their
results. `client.py` takes the steps, once blocking and once with asyncio.
"""

import base64
import io
import json
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from sluice_client.errors import ConnectionFailed, FileRejected, SluiceError, UnexpectedAnswer, error_class
from sluice_client.models import FullReport, SenderReport, UploadedFile

T = TypeVar("T")
Source: TypeAlias = "str | os.PathLike[str] | bytes | BinaryIO"
"""A file: its path, its bytes, or an open file that can seek, which is read from its start."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with the bytes of the file that were sent and those that it has. After a failure the first may be smaller."""

API: Final = "/api/v1"
LARGE: Final = 8 * 1024 * 1024
"""Larger files are sent in parts of this size, by tus."""
_PIECE: Final = 64 * 1024
_PASSING: Final = frozenset({429, 500, 502, 503, 504})
_NOT_CARRIED_OUT: Final = frozenset({429, 503})
_CONFLICT: Final = 409
_RESUMABLE: Final = {"Tus-Resumable": "1.0.0"}
_DICE: Final = random.SystemRandom()
_ADAPTERS: Final[dict[Any, TypeAdapter[Any]]] = {}  # making one takes longer than using it


@dataclass(frozen=True)
class Call(Generic[T]):
    """One operation of the API with its arguments. `model` is the type of `data`, or of each item of a list.

    `is_repeatable`: sending it twice does no more than sending it once. `cursor`: the field of the last item that the
    next request has as `after`, in lists without page numbers.
    """

    method: str
    path: str
    model: type[T]
    params: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    sent: Callable[[int], None] | None = None
    is_repeatable: bool | None = None
    cursor: str | None = None


@dataclass(frozen=True)
class Page(Generic[T]):
    """One response of a list, and the call for the next one."""

    items: list[T]
    following: Call[T] | None


@dataclass(frozen=True)
class Sleep:
    """A step: wait this many seconds."""

    seconds: float


@dataclass(frozen=True)
class Read:
    """A step: read bytes of a file."""

    file: BinaryIO
    offset: int
    size: int

    def now(self) -> bytes:
        """Return the bytes."""
        self.file.seek(self.offset)
        return self.file.read(self.size)


Step: TypeAlias = "httpx.Request | Sleep | Read"
Flow: TypeAlias = Generator[Step, Any, T]


def segment(text: str) -> str:
    """Return a value as one segment of a path. Raise `ValueError` for one that would be another path."""
    if text in {"", ".", ".."}:
        raise ValueError(f"expected an id or a key, found {text!r}")
    return quote(text, safe="")


def given(**fields: Any) -> dict[str, Any]:
    """Return the arguments that were given."""
    return {name: value for name, value in fields.items() if value is not None}


class Core:
    """Makes requests for one service and one credential, reads responses, and decides what is sent again."""

    def __init__(
        self, base_url: str, credential: str | None, *, timeout: httpx.Timeout, max_retries: int, max_retry_wait: float
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._headers = {"User-Agent": "sluice-client"}
        if credential is not None:
            self._headers["Authorization"] = f"Bearer {credential}"
        self._timeout = timeout
        self._max_retries = max_retries
        self._max_retry_wait = max_retry_wait

    def call(self, call: Call[T]) -> Flow[T]:
        """Carry out an operation and return its result."""
        response = yield from self._exchange(call)
        if call.model is bytes:
            return response.content  # type: ignore[return-value]  # T is bytes
        return _validated(_data(response), call.model)

    def page(self, call: Call[T]) -> Flow[Page[T]]:
        """Return one response of a list."""
        response = yield from self._exchange(call)
        items = [_validated(item, call.model) for item in _data(response)]
        following = None
        pagination = response.json().get("pagination")
        if pagination and pagination["page"] < pagination["total_pages"]:
            following = replace(call, params={**call.params, "page": pagination["page"] + 1})
        if call.cursor and items:
            asked = {name: value for name, value in call.params.items() if name != "wait"}
            following = replace(call, params={**asked, "after": getattr(items[-1], call.cursor)})
        return Page(items, following)

    def send_form(
        self,
        path: str,
        model: type[T],
        source: Source,
        *,
        context: str | None,
        filename: str | None,
        metadata: Mapping[str, Any] | None,
        idempotency_key: str | None = None,
        progress: Progress | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Flow[T]:
        """Send a file as a form and return the response."""
        with _opened(source, filename) as (file, name, size):
            content = yield Read(file, 0, size)
        fields = given(context=context, metadata=None if metadata is None else json.dumps(metadata))
        form = httpx.Request("POST", self._base_url, data=fields, files={"file": (name, content)})
        headers = {"Content-Type": form.headers["Content-Type"]}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        return (
            yield from self.call(
                Call(
                    "POST",
                    path,
                    model,
                    params=params or {},
                    headers=headers,
                    content=form.read(),
                    sent=_reported(progress, 0, size),
                    is_repeatable=True,
                )
            )
        )

    def upload(
        self,
        source: Source,
        *,
        context: str | None,
        filename: str | None,
        metadata: Mapping[str, Any] | None,
        idempotency_key: str | None,
        resume: str | None,
        on_upload_url: Callable[[str], None] | None,
        progress: Progress | None,
    ) -> Flow[UploadedFile]:
        """Send a file as a form if it is small, else in parts, and return the stored file."""
        with _opened(source, filename) as (file, name, size):
            if size <= LARGE and resume is None and on_upload_url is None:
                return (
                    yield from self.send_form(
                        "/files/upload",
                        UploadedFile,
                        file,
                        context=context,
                        filename=name,
                        metadata=metadata,
                        idempotency_key=idempotency_key or str(uuid.uuid4()),
                        progress=progress,
                    )
                )
            if resume is None:
                fields = given(
                    context=context, filename=name, metadata=None if metadata is None else json.dumps(metadata)
                )
                created = yield from self._create(fields, size)
                if "Location" not in created.headers:  # an empty file has its verdict already
                    return _validated(_data(created), UploadedFile)
                resume = created.headers["Location"]
                if on_upload_url is not None:
                    on_upload_url(resume)
                offset: int | None = 0
            else:
                offset = None
            try:
                return (yield from self._append(resume, file, size, offset, progress))
            except SluiceError as error:
                error.upload_url = None if isinstance(error, FileRejected) else resume
                raise

    def _create(self, fields: Mapping[str, str], size: int) -> Flow[httpx.Response]:
        metadata = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in fields.items())
        headers = {**_RESUMABLE, "Upload-Length": str(size), "Upload-Metadata": metadata}
        # Sent again after a lost response, it leaves an empty upload behind, which expires.
        call = Call("POST", "/uploads", UploadedFile, headers=headers, is_repeatable=True)
        return (yield from self._exchange(call))

    def _append(
        self, url: str, file: BinaryIO, size: int, offset: int | None, progress: Progress | None
    ) -> Flow[UploadedFile]:
        """Send the rest of an upload. The response to the last byte has the verdict."""
        # Only the id is taken of the URL: the credential goes to no other host than the configured one.
        path = f"/uploads/{segment(url.rstrip('/').rpartition('/')[2])}"
        failures = 0
        while True:
            if offset is None:
                head = yield from self._exchange(Call("HEAD", path, bytes, headers=_RESUMABLE))
                if head.headers.get("Upload-Length") != str(size):
                    raise SluiceError("The upload to resume is of a file of another size")
                offset = int(head.headers["Upload-Offset"])
            part = yield Read(file, offset, LARGE)
            if not part and offset < size:
                raise SluiceError("The file became shorter while it was sent")
            headers = {
                **_RESUMABLE,
                "Upload-Offset": str(offset),
                "Content-Type": "application/offset+octet-stream",
            }
            call = Call(
                "PATCH", path, UploadedFile, headers=headers, content=part, sent=_reported(progress, offset, size)
            )
            response = yield self._request(call)
            if isinstance(response, httpx.Response) and response.is_success:
                if response.content:
                    return _validated(_data(response), UploadedFile)
                reached = int(response.headers["Upload-Offset"])
                if reached > offset:
                    offset, failures = reached, 0
                    continue
                response = httpx.ReadError("the service keeps nothing of what it is sent")
            is_elsewhere = isinstance(response, httpx.Response) and "Upload-Offset" in response.headers
            yield self._pause(
                response, failures, may_repeat=is_elsewhere or self._may_repeat(response, repeatable=True)
            )
            offset, failures = None, failures + 1

    def _exchange(self, call: Call[Any]) -> Flow[httpx.Response]:
        """Send a request, again if it failed for a while and may be repeated, and return the last response."""
        failures = 0
        repeatable = call.method != "POST" if call.is_repeatable is None else call.is_repeatable
        while True:
            response = yield self._request(call)
            if isinstance(response, httpx.Response) and response.is_success:
                return response
            yield self._pause(response, failures, may_repeat=self._may_repeat(response, repeatable=repeatable))
            failures += 1

    def _may_repeat(self, response: httpx.Response | httpx.TransportError, *, repeatable: bool) -> bool:
        if isinstance(response, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
            return False
        if isinstance(response, httpx.TransportError):
            return repeatable or isinstance(response, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        if response.status_code == _CONFLICT:  # the same Idempotency-Key is still at work
            return repeatable and "Retry-After" in response.headers
        return response.status_code in (_PASSING if repeatable else _NOT_CARRIED_OUT)

    def _pause(self, response: httpx.Response | httpx.TransportError, failures: int, *, may_repeat: bool) -> Sleep:
        """Return how long to wait before the next try, or raise the error of the last one."""
        wait = _DICE.uniform(0.5, 1) * 0.5 * 2**failures
        asked = _retry_after(response) if isinstance(response, httpx.Response) else None
        if not may_repeat or failures >= self._max_retries or (asked or 0) > self._max_retry_wait:
            if isinstance(response, httpx.Response):
                raise error_of(response)
            raise ConnectionFailed(str(response) or type(response).__name__) from response
        return Sleep(max(wait, asked or 0))

    def _request(self, call: Call[Any]) -> httpx.Request:
        path = call.path if call.path.startswith(("/health", "/.well-known")) else API + call.path
        request = httpx.Request(
            call.method,
            self._base_url + path,
            params={name: to_jsonable_python(value) for name, value in call.params.items()},
            headers={**self._headers, **call.headers},
            content=call.content,
            json=None if call.body is None else to_jsonable_python(call.body),
            extensions={"timeout": self._timeout.as_dict()},
        )
        if call.content is not None and call.sent is not None:
            request.stream = _Body(call.content, call.sent)
        return request


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of a request, for both kinds of clients, which tells how much of it was taken."""

    def __init__(self, content: bytes, sent: Callable[[int], None]) -> None:
        self._content = content
        self._sent = sent

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), _PIECE):
            yield self._content[start : start + _PIECE]
            self._sent(min(start + _PIECE, len(self._content)))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def error_of(response: httpx.Response) -> SluiceError:
    """Return the error of a response."""
    code = response.headers.get("Sluice-Error-Code", "")
    try:
        body = response.json() if response.content else {}
        report = body.get("report")
        message = str(body.get("message") or f"{response.status_code} {response.reason_phrase}")
        return error_class(response.status_code, code)(
            message,
            status=response.status_code,
            code=code or f"http_{response.status_code}",
            errors=[str(one) for one in body.get("errors", ())],
            report=None if report is None else _adapter(FullReport | SenderReport).validate_python(report),
            request_id=response.headers.get("Request-Id"),
            retry_after=_retry_after(response),
        )
    except (ValueError, AttributeError, TypeError):  # of a proxy before the service
        message = f"{response.status_code} {response.reason_phrase}"
        return error_class(response.status_code, code)(
            message,
            status=response.status_code,
            code=code or f"http_{response.status_code}",
            retry_after=_retry_after(response),
        )


def _data(response: httpx.Response) -> Any:
    """Return `data` of the envelope, or a body without an envelope."""
    try:
        body = response.json() if response.content else None
    except ValueError as fault:
        raise UnexpectedAnswer(f"The server at {response.request.url} is not Sluice") from fault
    return body["data"] if isinstance(body, dict) and "data" in body else body


def _validated(data: Any, model: type[T]) -> T:
    try:
        validated: T = _adapter(model).validate_python(data)
    except ValidationError as fault:
        raise UnexpectedAnswer(
            f"The response is not a {getattr(model, '__name__', model)} that is known here"
        ) from fault
    return validated


def _adapter(model: Any) -> TypeAdapter[Any]:
    if model not in _ADAPTERS:
        _ADAPTERS[model] = TypeAdapter(model)
    return _ADAPTERS[model]


def _retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of `Retry-After`, which is a number or a date (RFC 9110 section 10.2.3)."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):  # no date, or one that no clock reaches
        return None


def _reported(progress: Progress | None, offset: int, size: int) -> Callable[[int], None] | None:
    """Return what reports a position in a body as a position in the file; a form is a little longer than its file."""
    return None if progress is None else lambda position: progress(min(offset + position, size), size)


@contextmanager
def _opened(source: Source, filename: str | None) -> Iterator[tuple[BinaryIO, str, int]]:
    """Open a file; give it, its name and its size."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as opened:  # noqa: PTH123  (any path that can be opened)
            name = filename or os.path.basename(os.fspath(source))  # noqa: PTH119  (the same)
            yield opened, name, os.fstat(opened.fileno()).st_size
        return
    file: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else source
    name = filename or os.path.basename(str(getattr(file, "name", "")))  # noqa: PTH119  (`name` may be any text)
    if not name:
        raise ValueError("filename is needed: these bytes have no name")
    yield file, name, file.seek(0, io.SEEK_END)
