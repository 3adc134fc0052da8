"""Verdict reports of `sluice check --rules`: files judged on this machine by the rules of a file."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for it)

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sluice.cli.yaml_text import read_yaml
from sluice_client.cli.output import CommandRefused, Exit

if TYPE_CHECKING:
    from sluice.uploads.values import Facts, Rules

_RULES_BYTES: Final = 1_048_576


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
    """Return the report on a file that was examined here, as the API shows it."""
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


def notes_on(rules: "Rules", *, scanned_with_yara: bool) -> str:
    """Return what was not checked here though the rules ask for it."""
    notes = []
    if rules.scan and scanned_with_yara:
        notes.append("Scanned by these YARA rules and Sluice's own only: antivirus engines need a service (--context).")
    elif rules.scan:
        notes.append("Not scanned for malware: that needs a service (--context).")
    if rules.policies.need_duplicates:
        notes.append("Not compared with stored files: the policy duplicates needs a service (--context).")
    if rules.policies.asked_kind is not None:
        notes.append("Not compared with examples: the policy document_kind needs a service (--context).")
    if rules.external_checks:
        notes.append("No external check was asked: that needs a service (--context).")
    return " ".join(notes)
