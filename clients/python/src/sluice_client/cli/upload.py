"""`sluice upload`: send files and folders to a running service over HTTP, several at a time, streamed from disk.

With `--resume` every file is a resumable upload (tus 1.0.0), and a journal notes its URL: the same command, started
again, asks the service for the state of each and continues where it was interrupted.
"""

# ruff: noqa: PLC0415  (what only some uploads need is loaded by them)

import hashlib
import json as json_format
import os
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, Final, Self, cast

import typer

from sluice_client.cli import output
from sluice_client.cli.form import STDIN, FormFile, files_in, opened_file
from sluice_client.cli.http import TIMEOUT, UNREACHABLE, ConnectionBroken, ConnectionRefused, Response
from sluice_client.cli.options import Json
from sluice_client.cli.output import Advance, CommandRefused, Exit, exit_of
from sluice_client.cli.service import Service, complete_context, envelope_of, message_of, on_service, segment
from sluice_client.errors import ServiceError, SluiceError, Unauthenticated

if TYPE_CHECKING:
    from sluice_client.client import Sluice

_WITH_REASON_CODE: Final = frozenset({"file_rejected", "limit_exceeded"})
_UPLOADS: Final = "/api/v1/uploads/"
_MOST_TRIES: Final = 6
_LONGEST_WAIT_SECONDS: Final = 90.0
_BUSY: Final = frozenset({408, 423, 429, 502, 503, 504, 507})
# Several files are started per thread, so that others need not wait for a slow one; results are printed in order.
_STARTED_PER_JOB: Final = 8


@dataclass(frozen=True, slots=True)
class Sent:
    """The result for one file; its fields are the JSON line.

    `outcome` is `accepted`, `quarantined`, `rejected`, or `failed`, which is no verdict on the file. `reason` is a
    reason code or the code of another error. `sentence` is for the sender of a rejected file. `status` is None without
    a response.
    """

    path: str
    outcome: str
    accepted: bool
    file_id: str | None
    reason: str | None
    message: str
    status: int | None
    report_id: str | None = None
    sentence: str | None = None

    @property
    def explained(self) -> str:
        """The reason why the file was not accepted: the sender's sentence if there is one."""
        return f"{self.sentence} ({self.reason})" if self.outcome == "rejected" and self.sentence else self.message

    @property
    def exit_code(self) -> Exit:
        """The exit code of a command that has this result alone."""
        match self.outcome:
            case "accepted" | "quarantined":
                return Exit.DONE
            case "rejected":
                return Exit.REJECTED
        if self.reason == "connection":
            return Exit.UNAVAILABLE
        return Exit.ERROR if self.status is None else exit_of(self.status)


@on_service
def upload(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files, folders with everything in them; - standard input.")
    ],
    *,
    context: Annotated[
        str,
        typer.Option(
            "--context", metavar="KEY", autocompletion=complete_context, help="The context whose rules apply."
        ),
    ],
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="A JSON object that is stored with each file.")
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The file name of what comes from standard input.")
    ] = "stdin",
    jobs: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Files that are sent at the same time.")] = 4,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted upload: pass it the first time too, and again."),
    ] = False,
    retry: Annotated[
        bool, typer.Option("--retry", help="Try again, for minutes, while the service is busy or cannot be reached.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Have the files checked as uploads are, and store nothing.")
    ] = False,
    service: Service,
    json: Json = False,
) -> int:
    """Upload files to a running service, print the result for each in their order, and the sums.

    Files are sent as they are read: a large one takes no memory. Exits with 3 when one was rejected; when one failed,
    with the code of that failure, or 1 if they failed for several reasons.
    """
    if resume and Path(STDIN) in paths:
        raise CommandRefused("Standard input cannot be resumed: give files to --resume.", Exit.USAGE)
    missing = next((path for path in paths if str(path) != STDIN and not os.path.lexists(path)), None)
    if missing is not None:
        raise CommandRefused(f"{missing} does not exist.", Exit.USAGE)
    files = [path for one in paths for path in ([one] if str(one) == STDIN else files_in([one]))]
    service.require_context(context)
    if dry_run:
        from sluice_client.cli.dry_run import Printer, ask_service

        printer = Printer(json=json)
        for path in files:
            printer.show(ask_service(service, path, context, name))
        return printer.end()
    counts: Counter[str] = Counter()
    codes: set[Exit] = set()
    began = time.monotonic()
    sizes = {path: path.stat().st_size for path in files if path.is_file()}
    with (
        _Journal.opened(service.url, context, metadata) if resume else _no_journal() as journal,
        output.progress("uploading", sum(sizes.values()), unit="bytes", quiet=json, then="checking") as advance,
    ):
        fields = {"context": context} | ({} if metadata is None else {"metadata": metadata})
        sender = _Sender(service, fields, journal, advance, stdin_name=name, retry=retry)
        for sent in _in_order(files, sender.send, jobs):
            counts[sent.outcome] += 1
            codes.add(sent.exit_code)
            if json:
                output.as_json(asdict(sent))
            else:
                output.line(f"{sent.outcome}  {sent.path}  {sent.file_id or sent.explained}")
        if journal is not None and not counts["failed"]:
            journal.forget(files)
    if not json:
        sums = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items())) or "no files"
        output.say(f"{sums}: {_readable(sum(sender.sizes.values()))} in {time.monotonic() - began:.1f} s.")
    failures = codes - {Exit.DONE, Exit.REJECTED}
    if len(failures) > 1:
        return Exit.ERROR
    return failures.pop() if failures else Exit.REJECTED if Exit.REJECTED in codes else Exit.DONE


def _readable(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "KB", "MB"):
        if amount < 1000:  # noqa: PLR2004  (of the decimal units)
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"


def _in_order(files: Sequence[Path], send: Callable[[Path], Sent], jobs: int) -> Iterator[Sent]:
    """Yield the result for each file in the order of `files`, sending `jobs` files at a time."""
    from concurrent.futures import Future, ThreadPoolExecutor

    started: deque[Future[Sent]] = deque()
    executor = ThreadPoolExecutor(jobs)
    try:
        for path in files:
            started.append(executor.submit(send, path))
            if len(started) >= jobs * _STARTED_PER_JOB:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:
        # What is being sent ends with its connection, which the caller closes.
        executor.shutdown(wait=False, cancel_futures=True)


class _Sender:
    """Sends one file after the other, in any thread."""

    def __init__(
        self,
        service: Service,
        fields: Mapping[str, str],
        journal: "_Journal | None",
        advance: Advance,
        *,
        stdin_name: str,
        retry: bool,
    ) -> None:
        self._service = service
        self._fields = fields
        self._journal = journal
        self._advance = advance
        self._stdin_name = stdin_name
        self._retry = retry
        self.sizes: dict[Path, int] = {}  # of the files that were opened

    def send(self, path: Path) -> Sent:
        """Send one file and return its outcome.

        Raise `CommandRefused` if the credential is not accepted, and `ConnectionRefused` if nothing responds: neither
        would be better for the next file.
        """
        name = self._stdin_name if str(path) == STDIN else os.fsencode(path.name).decode("utf-8", "replace")
        try:
            with opened_file(path) as (file, size):
                self.sizes[path] = size
                if self._journal is not None:
                    return self._send_resumable(path, name, file, size, self._journal)
                return self._send_form(path, name, file)
        except OSError as fault:
            message = f"cannot be read: {fault.strerror or fault}"
            return Sent(str(path), "failed", False, None, "unreadable", message, None)
        except ConnectionBroken as fault:
            return Sent(str(path), "failed", False, None, "connection", f"the connection broke: {fault}", None)

    def _send_form(self, path: Path, name: str, file: IO[bytes]) -> Sent:
        # With a key, a second try after a lost response stores no second file.
        headers = {"Idempotency-Key": f"upload-{secrets.token_hex(16)}"} if self._retry else {}

        def attempt() -> Response:
            file.seek(0)
            with self._counted() as count:
                form = FormFile(name, file, count)
                return form.send(self._service.http, "/api/v1/files/upload", self._fields, headers)

        return self._result(path, self._tried(attempt))

    def _send_resumable(self, path: Path, name: str, file: IO[bytes], size: int, journal: "_Journal") -> Sent:
        known = journal.upload_of(path)
        if known is not None:
            place = _UPLOADS + segment(known)
            response = self._tried(lambda: self._service.http.request("GET", place))
            if response.status == HTTPStatus.NOT_FOUND:  # it has expired, or was rejected long ago
                known = None
            elif (file_id := self._service.success(response)["data"]["file_id"]) is not None:
                self._advance(size)
                return Sent(str(path), "accepted", True, file_id, None, "File uploaded", response.status)
        metadata = self._fields.get("metadata")
        with self._counted() as count:
            counted = 0

            def progress(sent: int, _size: int) -> None:
                nonlocal counted
                count(sent - counted)
                counted = sent

            try:
                stored = self._client().files.upload(
                    cast("BinaryIO", file),
                    context=self._fields["context"],
                    filename=name,
                    metadata=None if metadata is None else json_format.loads(metadata),
                    resume=known,
                    on_upload_url=lambda url: journal.note(path, url.rstrip("/").rpartition("/")[2]),
                    progress=progress,
                )
            except SluiceError as error:
                return self._failed(path, error)
        return Sent(
            str(path), stored.outcome or "accepted", True, stored.file_id, None, "File uploaded", 201, stored.report_id
        )

    def _client(self) -> "Sluice":
        """Return the client of the library, on the same connections."""
        from sluice_client.client import Sluice

        return Sluice(
            self._service.credential,
            base_url=self._service.url,
            timeout=TIMEOUT,
            max_retries=_MOST_TRIES - 1 if self._retry else 0,
            max_retry_wait=_LONGEST_WAIT_SECONDS,
            http_client=self._service.http.library,
        )

    def _failed(self, path: Path, error: SluiceError) -> Sent:
        """Return the result for an error of the library; raise as `send` does."""
        if isinstance(error, Unauthenticated):
            raise CommandRefused("The service does not accept this API key.", Exit.CREDENTIALS, error_code=error.code)
        if not isinstance(error, ServiceError):
            if isinstance(error.__cause__, UNREACHABLE):
                raise ConnectionRefused(str(error))
            return Sent(str(path), "failed", False, None, "connection", f"the connection broke: {error}", None)
        outcome = "rejected" if exit_of(error.status, error.code) is Exit.REJECTED else "failed"
        reason = error.reason if error.code in _WITH_REASON_CODE else error.code
        retry_after = None if error.retry_after is None else f"{error.retry_after:.0f}"
        message = message_of({"message": error.message, "errors": error.errors}, retry_after)
        report_id, sentence = (error.report.report_id, error.report.message) if error.report else (None, None)
        return Sent(str(path), outcome, False, None, reason, message, error.status, report_id, sentence)

    def _tried(self, attempt: Callable[[], Response]) -> Response:
        """Return the response to an attempt; with `--retry`, to the last one while the service is unavailable."""
        for number in range(1, _MOST_TRIES + 1):
            wait = min(2.0**number, _LONGEST_WAIT_SECONDS)
            try:
                response = attempt()
            except (ConnectionBroken, ConnectionRefused):
                if not self._retry or number == _MOST_TRIES:
                    raise
            else:
                asked = response.headers.get("Retry-After", "")
                passes = response.status in _BUSY or (response.status == HTTPStatus.CONFLICT and bool(asked))
                wait = float(asked) if asked.isdecimal() else wait
                if not self._retry or not passes or number == _MOST_TRIES or wait > _LONGEST_WAIT_SECONDS:
                    return response
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def _counted(self) -> Iterator[Advance]:
        """Yield what counts bytes for the progress bar; take them back if the attempt fails."""
        counted = 0

        def count(amount: int) -> None:
            nonlocal counted
            counted += amount
            self._advance(amount)

        try:
            yield count
        except BaseException:
            self._advance(-counted)
            raise

    def _result(self, path: Path, response: Response) -> Sent:
        status, envelope = response.status, envelope_of(response)
        if status == HTTPStatus.UNAUTHORIZED and envelope is not None:
            self._service.success(response)
        if envelope is None:
            return Sent(
                str(path), "failed", False, None, None, f"responded with status {status} and no envelope", status
            )
        if status in {HTTPStatus.OK, HTTPStatus.CREATED}:
            stored = envelope["data"]
            outcome = stored.get("outcome") or "accepted"
            report_id = stored.get("report_id")
            return Sent(str(path), outcome, True, stored["file_id"], None, envelope["message"], status, report_id)
        report = envelope.get("report") or {}
        code = response.headers.get("Sluice-Error-Code")
        reason = envelope["errors"][0] if code in _WITH_REASON_CODE else code
        outcome = "rejected" if exit_of(status, code) is Exit.REJECTED else "failed"
        message = message_of(envelope, response.headers.get("Retry-After"))
        return Sent(
            str(path), outcome, False, None, reason, message, status, report.get("report_id"), report.get("message")
        )


# --- What --resume knows


@contextmanager
def _no_journal() -> Iterator[None]:
    yield None


class _Journal:
    """The uploads that were begun with `--resume` into one context, by file: a line of JSON for each.

    A file is known by its path, size and time of change: one that was changed is another.
    """

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path = path
        self._file = file
        self._lock = threading.Lock()
        self._known: dict[str, str] = {}
        for line in file:
            try:
                entry = json_format.loads(line)
                self._known[str(entry["file"])] = str(entry["upload"])
            except (ValueError, KeyError, TypeError):  # a kill may have cut the last line
                continue

    @classmethod
    @contextmanager
    def opened(cls, url: str, context: str, metadata: str | None) -> Iterator[Self]:
        """Open the journal of a service, a context and metadata. Raise `CommandRefused` if another upload has it."""
        import fcntl

        base = os.environ.get("XDG_STATE_HOME", "")
        folder = (Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state") / "sluice"
        digest = hashlib.sha256(json_format.dumps([url, context, metadata]).encode()).hexdigest()
        path = folder / f"uploads-{digest[:32]}.jsonl"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("a+", encoding="utf-8") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as fault:
                    raise CommandRefused(
                        f"Another upload with --resume into {context} is running: wait for it, or end it.",
                        Exit.UNAVAILABLE,
                    ) from fault
                file.seek(0)
                yield cls(path, file)
        except OSError as fault:
            raise CommandRefused(f"The journal {path} cannot be used: {fault.strerror or fault}.") from fault

    def upload_of(self, path: Path) -> str | None:
        """Return the id of the upload of a file, None if none was begun."""
        return self._known.get(_identity(path))

    def note(self, path: Path, upload: str) -> None:
        """Note the upload of a file, before its first byte is sent."""
        identity = _identity(path)
        with self._lock:
            self._known[identity] = upload
            self._file.write(json_format.dumps({"file": identity, "upload": upload}) + "\n")
            self._file.flush()

    def forget(self, paths: Sequence[Path]) -> None:
        """Forget these files: a later command sends them from the start."""
        done = {_identity(path) for path in paths}
        left = {identity: upload for identity, upload in self._known.items() if identity not in done}
        self._file.truncate(0)
        for identity, upload in left.items():
            self._file.write(json_format.dumps({"file": identity, "upload": upload}) + "\n")
        self._file.flush()


def _identity(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:  # gone meanwhile: no upload is known by this
        return f"{path.absolute()}"
    return json_format.dumps([str(path.absolute()), found.st_size, found.st_mtime_ns])
