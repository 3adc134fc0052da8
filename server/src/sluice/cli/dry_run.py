"""Verdict reports of `sluice check`: by the rules of a service's context or of a file, and how both are printed."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for it)

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluice.cli import output
from sluice.cli.form import FormFile, opened_file
from sluice.cli.http import Response
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.profiles import Target
from sluice.cli.service import Service, envelope_of, message_of, opened
from sluice.cli.yaml_text import read_yaml

if TYPE_CHECKING:
    from sluice.uploads.values import Facts, Rules

_RULES_BYTES: Final = 1_048_576
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


def _retry_after(response: Response) -> float:
    """Return the seconds after which to try again; 0 if the response names none (a proxy's may name a date)."""
    try:
        return float(response.headers.get("Retry-After", "0"))
    except ValueError:
        return 0.0


def read_rules(path: Path) -> "Rules":
    """Return the rules of a YAML file: the fields of a context. Raise `CommandRefused` that names every wrong field."""
    from pydantic import ValidationError

    from sluice.api.schemas.contexts import RuleChanges
    from sluice.contexts import Context
    from sluice.contexts.service import Draft
    from sluice.kit.clock import utc_now
    from sluice.uploads.values import Rules

    try:
        with path.open("rb") as file:
            text = file.read(_RULES_BYTES + 1)
        if len(text) > _RULES_BYTES:
            raise CommandRefused(f"{path} has more than {_RULES_BYTES} bytes.", Exit.USAGE)
        fields, _ = read_yaml(text)
    except OSError as fault:
        raise CommandRefused(f"{path} cannot be read: {fault.strerror}.", Exit.USAGE) from fault
    except ValueError as fault:
        raise CommandRefused(f"{path} is no YAML: {fault}.", Exit.USAGE) from fault
    try:
        changes = RuleChanges.model_validate(_with_modes({} if fields is None else fields)).changes()
    except ValidationError as fault:
        wrong = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'rules'}: {problem['msg']}" for problem in fault.errors()
        )
        raise CommandRefused(f"The rules in {path} are wrong. {wrong}.", Exit.USAGE) from fault
    draft = Draft(context_key=path.stem, display_name=path.stem, **changes)
    context = Context(
        context_id="",
        tenant_id="",
        **{name: getattr(draft, name) for name in Draft.__slots__},
        storage_used_bytes=0,
        status="active",
        rules_version=0,
        created_at=utc_now(),
        updated_at=None,
    )
    return Rules.of(context)


def _with_modes(fields: object) -> object:
    """Return the fields with the mode `off` as a word: in YAML 1.1 it is a boolean."""
    if not isinstance(fields, dict) or not isinstance(fields.get("policies"), dict):
        return fields
    policies = {
        name: policy | {"mode": "off"} if isinstance(policy, dict) and policy.get("mode") is False else policy
        for name, policy in fields["policies"].items()
    }
    return fields | {"policies": policies}


def report_by_rules(facts: "Facts", rules: "Rules", source: Path) -> Mapping[str, Any]:
    """Return the report on a file that was examined here, as the API shows it. It was not scanned for malware."""
    from sluice import __version__
    from sluice.api.schemas.reports import full_report
    from sluice.kit.clock import utc_now
    from sluice.kit.ids import new_id
    from sluice.uploads.report import VerdictReport
    from sluice.uploads.rules import decide, judge_all, quarantine_by

    rejection = decide(facts, rules)
    failure = rejection or quarantine_by(facts, rules)
    report = VerdictReport(
        report_id=new_id("rep"),
        outcome="rejected" if rejection is not None else "accepted" if failure is None else "quarantined",
        reason=None if failure is None else failure.reason,
        rejection=failure,
        detail="" if failure is None else failure.detail,
        file_id=None,
        context_key=source.stem,
        facts=facts,
        rules=rules,
        engines={"sluice": __version__},
        checks=judge_all(facts, rules, failed=failure),
        all_checks=True,
        duration_ms=None if facts.examined is None else round(facts.examined.ms),
        actor_id=None,
        actor_name=None,
        created_at=utc_now(),
        is_dry_run=True,
    )
    return full_report(report, None).model_dump(mode="json")


def notes_on(rules: "Rules") -> str:
    """Return what was not checked here though the rules ask for it."""
    notes = []
    if rules.scan:
        notes.append("Not scanned for malware: that needs a service (--context).")
    if rules.policies.need_duplicates:
        notes.append("Not compared with stored files: the policy duplicates needs a service (--context).")
    return " ".join(notes)
