"""`sluice import`: send the objects of a bucket, or the files of a folder, through the checks of a running service.

The outcome of each file is a line of a state file, written after the response: a command that is started again sends
what has no line, and what has changed since its line. Each upload has an idempotency key, so one whose response was not
noted creates no second file.
"""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the HTTP client)

import hashlib
import json as json_format
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Protocol, Self

import typer

from sluice_client.cli import output
from sluice_client.cli.form import FormFile
from sluice_client.cli.http import HttpClient, Response
from sluice_client.cli.options import Json
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import Service, envelope_of, message_of, on_service

if TYPE_CHECKING:
    import asyncio

    from sluice.storage import ListedObject
    from sluice.wiring.storage import SourceBucket

_S3: Final = "s3://"
_TRIES: Final = 5
_LONGEST_WAIT_SECONDS: Final = 90.0
_BUSY: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.CONFLICT})
_CHUNK: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class Item:
    """An object or file of the source: its name below the source, and its size in bytes.

    `version` is another one after each change; empty if the source has none.
    """

    name: str
    size: int
    version: str = ""


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The outcome of one item: `accepted`, `quarantined`, `rejected` or `failed`. Its fields are the JSON line."""

    name: str
    size: int
    outcome: str
    file_id: str | None = None
    report_id: str | None = None
    reason: str | None = None
    version: str = ""


class ImportSource(Protocol):
    """The source of the items."""

    def items(self) -> Iterator[Item]:
        """Yield every item, always in the same order."""
        ...

    def copy(self, item: Item, to: IO[bytes]) -> None:
        """Write the bytes of an item; raise `OSError` if they cannot be read."""
        ...


@on_service
def import_files(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A folder, or s3://bucket/folder.")],
    *,
    context: Annotated[str, typer.Option("--context", metavar="KEY", help="The context whose rules apply.")],
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Check each file as an upload is checked, and store nothing.")
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Where progress is kept. Default: a name made of the source."),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, max=32, help="How many files are sent at the same time.")
    ] = 4,
    endpoint: Annotated[str | None, typer.Option("--endpoint", help="S3: its address, if it is not AWS.")] = None,
    region: Annotated[str, typer.Option("--region", envvar="AWS_REGION", help="S3: its region.")] = "us-east-1",
    access_key_id: Annotated[
        str,
        typer.Option(
            "--access-key-id", envvar=["SLUICE_IMPORT_ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"], help="S3: its access key."
        ),
    ] = "",
    secret_access_key: Annotated[
        str,
        typer.Option(
            "--secret-access-key",
            envvar=["SLUICE_IMPORT_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"],
            help="S3: its secret. Better in the variable: other users see options.",
        ),
    ] = "",
    service: Service,
    json: Json = False,
) -> int:
    """Send each file of a folder or a bucket through the checks of a running service, which stores what passes.

    Started again after a kill or a failure, it continues where it stopped; files that changed since they were sent
    are sent again, as new files. Exits with 3 when files were rejected, 1 when some failed.
    """
    place = source.rstrip("/") if source.startswith(_S3) else str(Path(source).resolve())
    task = {"source": place, "context": context, "report_only": report_only}
    digest = hashlib.sha256(json_format.dumps(task, sort_keys=True).encode()).hexdigest()
    counts: Counter[str] = Counter()
    with (
        _opened(place, _Address(endpoint, region, access_key_id, secret_access_key)) as found,
        _State(state or Path(f"sluice-import-{digest[:12]}.jsonl"), task) as progress,
    ):
        service.require_context(context)
        earlier = len(progress.done)
        new = (item for item in found.items() if not progress.has(item))
        for taken in _send_all(partial(_send, service.http, task=task, digest=digest), found, new, at_once):
            counts[taken.outcome] += 1
            if taken.outcome != "failed":
                progress.note(taken)
            if json:
                output.as_json(asdict(taken))
            else:
                output.line(f"{taken.outcome}  {taken.name}  {taken.file_id or taken.reason or ''}".rstrip())
    words = [f"{number} {outcome}" for outcome, number in sorted(counts.items())]
    before = f", {earlier} done before" if earlier else ""
    output.complain(f"{', '.join(words) or 'No new files'}{before}.")
    if counts["failed"]:
        return Exit.ERROR
    return Exit.REJECTED if counts["rejected"] else Exit.DONE


# --- Sources


@dataclass(frozen=True, slots=True)
class _Address:
    """The address of a bucket, and its credentials."""

    endpoint: str | None
    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


@contextmanager
def _opened(place: str, address: _Address) -> Iterator[ImportSource]:
    if not place.startswith(_S3):
        if not Path(place).is_dir():
            raise CommandRefused(f"There is no folder {place}.", Exit.USAGE)
        yield _Folder(Path(place))
        return
    import asyncio

    from sluice.storage import StoreError
    from sluice.wiring.storage import make_source_bucket

    name, _, prefix = place.removeprefix(_S3).partition("/")
    key_id, secret = address.access_key_id, address.secret_access_key
    if not key_id or not secret:
        raise CommandRefused("A bucket needs --access-key-id and --secret-access-key, or their variables.", Exit.USAGE)
    with asyncio.Runner() as runner:
        try:
            store = make_source_bucket(name, address.region, key_id, secret, address.endpoint)
            try:
                yield _Bucket(store, prefix, runner)
            finally:
                runner.run(store.aclose())
        except StoreError as fault:
            raise CommandRefused(f"{place} cannot be read: {fault}", Exit.UNAVAILABLE) from fault


class _Folder:
    """The files of a folder and those below it; links are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def items(self) -> Iterator[Item]:
        for folder, folders, names in os.walk(self._root):
            folders.sort()
            for name in sorted(names):
                path = Path(folder) / name
                if path.is_file() and not path.is_symlink():
                    status = path.stat()
                    yield Item(str(path.relative_to(self._root)), status.st_size, str(status.st_mtime_ns))

    def copy(self, item: Item, to: IO[bytes]) -> None:
        with (self._root / item.name).open("rb") as file:
            shutil.copyfileobj(file, to, _CHUNK)


class _Bucket:
    """The objects below a folder of a bucket."""

    def __init__(self, store: "SourceBucket", prefix: str, runner: "asyncio.Runner") -> None:
        self._store = store
        self._prefix = prefix
        self._runner = runner

    def items(self) -> Iterator[Item]:
        batches = self._store.list_objects(self._prefix)

        async def following() -> "Sequence[ListedObject]":
            async for found in batches:
                return found
            return ()

        while batch := self._runner.run(following()):
            for found in batch:
                yield Item(found.key[len(self._prefix) :].lstrip("/"), found.size, found.version)

    def copy(self, item: Item, to: IO[bytes]) -> None:
        key = f"{self._prefix}/{item.name}" if self._prefix else item.name

        async def read() -> None:
            async for chunk in self._store.read(key):
                to.write(chunk)

        try:
            self._runner.run(read())
        except KeyError as fault:
            raise FileNotFoundError(key) from fault


# --- One item


def _send_all(
    send: Callable[[Item, IO[bytes]], TakenIn], source: ImportSource, items: Iterable[Item], at_once: int
) -> Iterator[TakenIn]:
    """Send the items, at most `at_once` at a time, and yield the outcome of each when it is known.

    They are read one after the other.
    """
    with ThreadPoolExecutor(at_once) as threads:
        waiting = set[Future[TakenIn]]()
        for item in items:
            file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by the thread that sends it)
            try:
                source.copy(item, file)
            except OSError as fault:
                file.close()
                yield TakenIn(item.name, item.size, "failed", reason=fault.strerror or "it cannot be read")
                continue
            if file.tell() != item.size:
                file.close()
                reason = "it changed while it was read: start the command again"
                yield TakenIn(item.name, item.size, "failed", reason=reason)
                continue
            waiting.add(threads.submit(send, item, file))
            if len(waiting) == at_once:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (one.result() for one in done)
        yield from (one.result() for one in as_completed(waiting))


def _send(http: HttpClient, item: Item, file: IO[bytes], *, task: dict[str, object], digest: str) -> TakenIn:
    """Send one item, again after a pause if the service is busy, and close its file."""
    path = "/api/v1/files/validate" if task["report_only"] else "/api/v1/files/upload"
    origin = json_format.dumps({"imported_from": f"{task['source']}/{item.name}"})
    version = f"\0{item.version}" if item.version else ""
    key = hashlib.sha256(f"{digest}\0{item.name}\0{item.size}{version}".encode(errors="surrogateescape")).hexdigest()
    headers = {} if task["report_only"] else {"Idempotency-Key": f"import-{key}"}
    fields = {"context": str(task["context"])} | ({} if task["report_only"] else {"metadata": origin})
    with file:
        name = os.fsencode(Path(item.name).name).decode("utf-8", "replace")
        for attempt in range(1, _TRIES + 1):
            file.seek(0)
            response = FormFile(name, file).send(http, path, fields, headers)
            if response.status not in _BUSY or attempt == _TRIES:
                break
            asked = response.headers.get("Retry-After", "")
            time.sleep(min(float(asked) if asked.isdecimal() else 2.0**attempt, _LONGEST_WAIT_SECONDS))
    return replace(_outcome(item, response), version=item.version)


def _outcome(item: Item, response: Response) -> TakenIn:
    envelope = envelope_of(response)
    if envelope is None:
        return TakenIn(item.name, item.size, "failed", reason=f"status {response.status} and no envelope")
    if response.status == HTTPStatus.CREATED:
        stored = envelope["data"]
        outcome = stored.get("outcome") or "accepted"
        return TakenIn(item.name, item.size, outcome, stored["file_id"], stored.get("report_id"))
    report = envelope.get("report") or (envelope.get("data") or {}).get("report") or {}
    if response.status == HTTPStatus.OK and report.get("outcome") in {"accepted", "quarantined", "rejected"}:
        return TakenIn(item.name, item.size, report["outcome"], reason=report.get("reason"))
    if response.headers.get("Sluice-Error-Code") == "file_rejected":
        return TakenIn(
            item.name, item.size, "rejected", report_id=report.get("report_id"), reason=envelope["errors"][0]
        )
    if response.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise CommandRefused(f"{message_of(envelope)}.", Exit.CREDENTIALS)
    return TakenIn(item.name, item.size, "failed", reason=message_of(envelope))


class _State:
    """The state file: what is imported, and then a line for each item that was decided on.

    A kill may cut the last line: it is removed, and its item sent again.
    """

    def __init__(self, path: Path, task: dict[str, object]) -> None:
        self.done: dict[str, tuple[int, str]] = {}  # size and version of each item
        self._path = path
        self._task = task

    def __enter__(self) -> Self:
        try:
            whole = self._path.read_bytes() if self._path.exists() else b""
            kept = whole[: whole.rfind(b"\n") + 1]
            lines = [json_format.loads(line) for line in kept.splitlines()]
            if lines and lines[0] != self._task:
                raise CommandRefused(f"{self._path} is the state of another import: name another file with --state.")
            self.done = {line["name"]: (line["size"], line.get("version", "")) for line in lines[1:]}
            self._file = self._path.open("r+b" if whole else "wb")
            self._file.truncate(len(kept))
            self._file.seek(len(kept))
        except (OSError, ValueError, KeyError, TypeError) as fault:
            raise CommandRefused(f"The state file {self._path} cannot be used: {fault}.", Exit.USAGE) from fault
        if not kept:
            self._write(self._task)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def has(self, item: Item) -> bool:
        """Return whether the item was decided on as it is now."""
        return self.done.get(item.name) == (item.size, item.version)

    def note(self, taken: TakenIn) -> None:
        """Write the outcome of an item."""
        self._write(asdict(taken))

    def _write(self, value: object) -> None:
        self._file.write(json_format.dumps(value).encode() + b"\n")
        self._file.flush()
