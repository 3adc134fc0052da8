"""The verdict report of an upload: what was checked and found, and what its sender can do.

It is made of a decision, fresh or from the decision log, and holds everything; who sees how much of it is decided in
`api.schemas.reports`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Self

from sluice.contexts.policies import Mode
from sluice.decisions import DecisionRecord
from sluice.uploads.reasons import WORDS, Advice, Reason, stored_reason
from sluice.uploads.rules import CheckResult, judge_all, rejection_for
from sluice.uploads.values import Facts, Rejection, Rules, VerdictOutcome

# The check that could not be made while a part of the service was unavailable.
_CHECK_OF_PART: Final[Mapping[str, str]] = MappingProxyType(
    {"malware scanner": "malware", "file checker": "integrity.structure", "rate limiter": "rate", "storage": "storage"}
)
_RETRYABLE_REASONS: Final = frozenset(reason for reason, words in WORDS.items() if words.retryable)


@dataclass(frozen=True, slots=True)
class VerdictReport:
    """The report on one upload."""

    report_id: str
    outcome: VerdictOutcome
    reason: Reason | None
    rejection: Rejection | None
    """The failure that gave the outcome; None for an upload that was accepted, or that could not be judged."""
    detail: str
    file_id: str | None
    context_key: str
    facts: Facts
    rules: Rules
    engines: Mapping[str, str]
    checks: tuple[CheckResult, ...]
    all_checks: bool
    duration_ms: int | None
    actor_id: str | None
    actor_name: str | None
    created_at: datetime
    is_dry_run: bool = False
    """Whether the file was only judged, and not stored whatever the outcome."""

    @classmethod
    def of(cls, record: DecisionRecord, *, is_dry_run: bool = False) -> Self:
        """Return the report of a decision, as it was logged now or by an earlier release.

        Raise `ValueError` for a row that is not about an upload.
        """
        if record.mode == "rescan":
            raise ValueError("a later scan of a stored file has no report")
        rules, facts = Rules.from_json(record.rules), Facts.from_json(record.facts)
        reason = stored_reason(record.reason)
        rejection = None if reason is None else rejection_for(reason, record.detail, facts, rules)
        checks = judge_all(facts, rules, failed=rejection)
        outcome: Any = record.outcome
        if outcome == "undecided":
            checks = _with_error(checks, record.detail)
        elif record.file_id is not None:
            checks = tuple(replace(check, outcome="pass") if check.name == "storage" else check for check in checks)
        return cls(
            report_id=record.report_id,
            outcome=outcome,
            reason=reason,
            rejection=rejection,
            detail=record.detail,
            file_id=record.file_id,
            context_key=record.context_key,
            facts=facts,
            rules=rules,
            engines=record.engines,
            checks=checks,
            all_checks=record.mode == "full",
            duration_ms=record.duration_ms,
            actor_id=record.actor_id or record.actor.get("id"),
            actor_name=record.actor.get("name"),
            created_at=record.created_at,
            is_dry_run=is_dry_run,
        )

    @property
    def is_retryable(self) -> bool:
        """Whether the same bytes may pass later."""
        return self.outcome == "undecided" or self.reason in _RETRYABLE_REASONS

    @property
    def advice(self) -> Advice | None:
        """The advice to the sender; None if nothing is needed."""
        if self.outcome == "undecided":
            return "wait"
        return WORDS[self.reason].advice if self.outcome == "rejected" and self.reason is not None else None


def _with_error(checks: tuple[CheckResult, ...], part: str) -> tuple[CheckResult, ...]:
    failed = _CHECK_OF_PART.get(part)
    return tuple(
        CheckResult(check.name, check.mode, "error") if check.name == failed and check.mode is not Mode.OFF else check
        for check in checks
    )
