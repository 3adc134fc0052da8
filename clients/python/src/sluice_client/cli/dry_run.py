"""Verdict reports without an upload: how a service judges files, and how reports are printed."""

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluice_client.cli import output
from sluice_client.cli.form import FormFile, opened_file
from sluice_client.cli.output import Exit
from sluice_client.cli.profiles import Target
from sluice_client.cli.service import Service, envelope_of, message_of, opened

if TYPE_CHECKING:
    from sluice_client.cli.http import Response

_FAILED: Final = frozenset({"fail", "would_fail", "error"})
_TRIES: Final = 3  # a service limits the dry runs per minute; the others wait
_LONGEST_WAIT_SECONDS: Final = 90.0


@dataclass(frozen=True, slots=True)
class Reported:
    """The report on one file; its fields are the JSON line. `error` says why there is none."""

    path: str
    report: Mapping[str, Any] | None
    error: str | None = None

    @property
    def word(self) -> str:
        """The verdict for people."""
        if self.report is None or self.report["outcome"] == "undecided":
            return "failed"
        return str(self.report["outcome"])


class Printer:
    """Prints reports one by one, counts them, and ends with the sums and the exit code."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._counts: Counter[str] = Counter()
        self._began = time.monotonic()

    def show(self, reported: Reported) -> None:
        """Print one report: each check that fails, with what was found and expected, and the sender's sentence."""
        self._counts[reported.word] += 1
        if self._json:
            output.as_json({"path": reported.path, "report": reported.report, "error": reported.error})
            return
        if reported.report is None:
            output.line(f"failed  {reported.path}  {reported.error}")
            return
        reason = reported.report["reason"]
        output.line(f"{reported.word}  {reported.path}" + (f"  {reason}" if reason else ""))
        for check in reported.report.get("checks", ()):
            if check["outcome"] in _FAILED:
                output.line(f"    {check['name']} ({check['outcome'].replace('_', ' ')}): {_explained(check)}")
        if removed := (reported.report.get("sanitised") or {}).get("removed"):
            output.line(f"    taken out: {', '.join(removed)}")
        if reason:
            output.line(f"    {reported.report['message']}")

    def end(self, note: str = "") -> int:
        """Print the sums and a note; return the exit code."""
        if not self._json:
            sums = ", ".join(f"{count} {word}" for word, count in sorted(self._counts.items())) or "none"
            output.line(f"{self._counts.total()} files in {time.monotonic() - self._began:.1f} s: {sums}")
            if note:
                output.line(note)
        if self._counts["failed"]:
            return Exit.ERROR
        return Exit.REJECTED if self._counts["rejected"] else Exit.DONE


def _explained(check: Mapping[str, Any]) -> str:
    detail = str(check.get("detail") or "")
    if detail.startswith("found ") or check.get("found") is None:
        return detail or "could not be made"
    expected = "" if check.get("expected") is None else f", expected {_plain(check['expected'])}"
    return f"{detail}; found {_plain(check['found'])}{expected}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def check_by_service(files: Sequence[Path], context: str, target: Target, *, json: bool) -> int:
    """Ask a service what it would do with the files, print its reports, and return the exit code."""
    printer = Printer(json=json)
    with opened(target) as service:
        service.require_context(context)
        for path in files:
            printer.show(ask_service(service, path, context))
    return printer.end()


def ask_service(service: Service, path: Path, context: str, stdin_name: str = "stdin") -> Reported:
    """Return the report of a service on one file; wait if it takes no more dry runs at the moment."""
    name = stdin_name if str(path) == "-" else os.fsencode(path.name).decode("utf-8", "replace")
    try:
        with opened_file(path) as (file, _size):
            for attempt in range(_TRIES):
                file.seek(0)
                response = FormFile(name, file).send(service.http, "/api/v1/files/validate", {"context": context})
                wait = _retry_after(response)
                if response.status != HTTPStatus.TOO_MANY_REQUESTS or not 0 < wait <= _LONGEST_WAIT_SECONDS:
                    break
                if attempt < _TRIES - 1:
                    time.sleep(wait)
    except OSError as fault:
        return Reported(str(path), None, f"cannot be read: {fault.strerror or fault}")
    envelope = envelope_of(response)
    if envelope is None:
        return Reported(str(path), None, f"responded with status {response.status} and no envelope")
    if response.status != HTTPStatus.OK:
        return Reported(str(path), envelope.get("report"), message_of(envelope, response.headers.get("Retry-After")))
    return Reported(str(path), envelope["data"]["report"])


def _retry_after(response: "Response") -> float:
    """Return the seconds after which to try again; 0 if the response names none (a proxy's may name a date)."""
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0
