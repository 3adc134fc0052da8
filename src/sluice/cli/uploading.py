"""`sluice upload`: files sent to a running service over HTTP, streamed from disk. What the service makes of them is its own affair."""

import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from sluice.cli import show
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.cli.progress import Advance, in_bytes

# A large file is checked and scanned after its last byte: the answer may take minutes.
_PATIENCE: Final = httpx.Timeout(connect=10.0, read=600.0, write=60.0, pool=10.0)
_WITH_REASON_CODE: Final = frozenset({"file_rejected", "limit_exceeded"})


@dataclass(frozen=True, slots=True)
class Destination:
    """Where files go: the service, the credential, the context, and the metadata that is kept with each."""

    url: str
    credential: str = field(repr=False)
    context: str
    metadata: str | None


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one file; its fields are the JSON line. `reason` is a reason code, or the code of another error."""

    path: str
    accepted: bool
    file_id: str | None
    reason: str | None
    message: str
    status: int

    @property
    def word(self) -> str:
        """The outcome for people: `failed` is the service's fault and worth another try."""
        if self.accepted:
            return "accepted"
        return "failed" if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "rejected"


def upload(destination: Destination, files: Sequence[Path], *, json: bool) -> int:
    """Send the files in their order and print what became of each; the exit code is 1 when one was rejected, 3 when one failed.

    Raises `CommandRefused` when the service cannot be reached, or lets nobody in with this credential.
    """
    words: Counter[str] = Counter()
    total = sum(path.stat().st_size for path in files)
    with _client(destination) as client:
        _require_context(client, destination)
        with in_bytes("uploading", total, quiet=json) as advance:
            for path in files:
                sent = _send(client, destination, path, advance)
                words[sent.word] += 1
                _print(sent, json=json)
    if words["failed"]:
        return Exit.FAILED
    return Exit.REFUSED if words["rejected"] else Exit.DONE


@contextmanager
def _client(destination: Destination) -> Iterator[httpx.Client]:
    """Answer a client of the service; what goes wrong on the way becomes a sentence."""
    if not destination.credential:
        raise CommandRefused("An API key is needed: put it into SLUICE_API_KEY, or give it with --api-key.", Exit.USAGE)
    headers = {"Authorization": f"Bearer {destination.credential}"}
    try:
        with httpx.Client(base_url=destination.url, headers=headers, timeout=_PATIENCE) as client:
            yield client
    except (httpx.ConnectError, httpx.ConnectTimeout) as fault:
        raise CommandRefused(
            f"No service answers at {destination.url}: start one with `sluice serve`, or give its address with --url.", Exit.FAILED
        ) from fault
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as fault:
        raise CommandRefused(f"{destination.url} or the API key cannot be sent: {fault}.", Exit.USAGE) from fault
    except httpx.TransportError as fault:
        raise CommandRefused(
            f"The connection to {destination.url} broke: {str(fault) or type(fault).__name__}.", Exit.FAILED
        ) from fault


def _require_context(client: httpx.Client, destination: Destination) -> None:
    """Ask for the context before any byte of a file is sent: a wrong key or name is told once, not once for every file."""
    response = client.get(f"/api/v1/contexts/{quote(destination.context, safe='')}")
    if response.status_code == HTTPStatus.NOT_FOUND and _envelope(response) is not None:
        raise CommandRefused(f"The service has no context {destination.context}.")
    if response.status_code == HTTPStatus.UNAUTHORIZED:
        raise CommandRefused("The service does not accept this API key.")
    envelope = _envelope(response)
    if envelope is None:
        raise CommandRefused(
            f"What answers at {destination.url} is no Sluice service (status {response.status_code}).", Exit.FAILED
        )
    if response.status_code != HTTPStatus.OK:
        raise CommandRefused(_message(envelope), Exit.FAILED)


def _send(client: httpx.Client, destination: Destination, path: Path, advance: Advance) -> Sent:
    fields = {"context": destination.context}
    if destination.metadata is not None:
        fields["metadata"] = destination.metadata
    name = os.fsencode(path.name).decode("utf-8", "replace")
    with _Watched(path, advance) as file:
        response = client.post("/api/v1/files/upload", data=fields, files={"file": (name, file)})
    envelope = _envelope(response)
    if envelope is None:
        return Sent(
            str(path), False, None, None, f"answered with status {response.status_code} and no envelope", response.status_code
        )
    if response.status_code == HTTPStatus.CREATED:
        return Sent(str(path), True, envelope["data"]["file_id"], None, envelope["message"], response.status_code)
    code = response.headers.get("Sluice-Error-Code")
    reason = envelope["errors"][0] if code in _WITH_REASON_CODE else code
    return Sent(str(path), False, None, reason, _message(envelope, response.headers.get("Retry-After")), response.status_code)


class _Watched(io.BufferedReader):
    """A file that tells how many bytes were read of it."""

    def __init__(self, path: Path, advance: Advance) -> None:
        super().__init__(io.FileIO(path))
        self._advance = advance

    def read(self, size: int | None = -1, /) -> bytes:
        """Read as any file does, and tell."""
        chunk = super().read(size)
        self._advance(len(chunk))
        return chunk


def _envelope(response: httpx.Response) -> dict[str, Any] | None:
    """Answer the envelope around an answer of a Sluice service, None around any other's."""
    try:
        body = response.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) and body.get("status") in {"SUCCESS", "ERROR"} else None


def _message(envelope: dict[str, Any], retry_after: str | None = None) -> str:
    words = [envelope["message"], *(f" ({'; '.join(errors)})" for errors in [envelope.get("errors")] if errors)]
    return "".join(words) + (f"; try again in {retry_after} s" if retry_after else "")


def _print(sent: Sent, *, json: bool) -> None:
    if json:
        show.as_json(asdict(sent))
        return
    show.line(show.harmless(f"{sent.word}  {sent.path}  {sent.file_id or sent.message}"))
