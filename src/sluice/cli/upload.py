"""`sluice upload`: send files to a running service over HTTP, streamed from disk."""

import io
import os
from collections import Counter
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from sluice.cli import output
from sluice.cli.options import Json
from sluice.cli.output import Advance, Exit
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, envelope_of, message_of, require_context, service_client

if TYPE_CHECKING:
    import httpx

_WITH_REASON_CODE: Final = frozenset({"file_rejected", "limit_exceeded"})


@dataclass(frozen=True, slots=True)
class Sent:
    """The result for one file; its fields are the JSON line.

    `reason` is a reason code or the code of another error. `sentence` is for the sender of a rejected file.
    """

    path: str
    accepted: bool
    file_id: str | None
    reason: str | None
    message: str
    status: int
    report_id: str | None = None
    sentence: str | None = None

    @property
    def word(self) -> str:
        """The result for people: `failed` is the service's fault and worth a retry."""
        if self.accepted:
            return "accepted"
        return "failed" if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "rejected"

    @property
    def explained(self) -> str:
        """Why the file was not accepted: the sender's sentence if there is one."""
        return f"{self.sentence} ({self.reason})" if self.word == "rejected" and self.sentence else self.message


def upload(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="The files to send.")
    ],
    *,
    context: Annotated[str, typer.Option("--context", metavar="KEY", help="The context whose rules apply.")],
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
    metadata: Annotated[
        str | None, typer.Option("--metadata", help="A JSON object that is stored with each file.")
    ] = None,
    json: Json = False,
) -> int:
    """Upload files to a running service, one after the other, and print the result for each.

    Files are sent as they are read: a large one takes no memory. Exits with 1 when one was rejected, 3 when the service
    could not be reached.
    """
    counts: Counter[str] = Counter()
    total = sum(path.stat().st_size for path in files)
    fields = {"context": context} if metadata is None else {"context": context, "metadata": metadata}
    with service_client(url, api_key) as client:
        require_context(client, url, context)
        with output.progress("uploading", total, unit="bytes", quiet=json) as advance:
            for path in files:
                sent = _send(client, path, fields, advance)
                counts[sent.word] += 1
                if json:
                    output.as_json(asdict(sent))
                else:
                    output.line(f"{sent.word}  {sent.path}  {sent.file_id or sent.explained}")
    if counts["failed"]:
        return Exit.FAILED
    return Exit.REFUSED if counts["rejected"] else Exit.DONE


def _send(client: "httpx.Client", path: Path, fields: dict[str, str], advance: Advance) -> Sent:
    name = os.fsencode(path.name).decode("utf-8", "replace")
    with _CountedFile(path, advance) as file:
        response = client.post("/api/v1/files/upload", data=fields, files={"file": (name, file)})
    status = response.status_code
    envelope = envelope_of(response)
    if envelope is None:
        return Sent(str(path), False, None, None, f"answered with status {status} and no envelope", status)
    if status == HTTPStatus.CREATED:
        stored = envelope["data"]
        return Sent(str(path), True, stored["file_id"], None, envelope["message"], status, stored.get("report_id"))
    report = envelope.get("report", {})
    code = response.headers.get("Sluice-Error-Code")
    reason = envelope["errors"][0] if code in _WITH_REASON_CODE else code
    message = message_of(envelope, response.headers.get("Retry-After"))
    return Sent(str(path), False, None, reason, message, status, report.get("report_id"), report.get("message"))


class _CountedFile(io.BufferedReader):
    """A file that reports how many bytes were read from it."""

    def __init__(self, path: Path, advance: Advance) -> None:
        super().__init__(io.FileIO(path))
        self._advance = advance

    def read(self, size: int | None = -1, /) -> bytes:
        try:
            chunk = super().read(size)
        except OSError as fault:
            raise OSError(fault.errno, fault.strerror, str(self.name)) from fault
        self._advance(len(chunk))
        return chunk
