"""Replay: what changed rules would have made of earlier uploads. Pure functions of the facts in the decision log.

No bytes are needed. Where the changed rules ask for a fact that was not measured, the result is unknown, and why.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sluice.contexts.policies import CONTENT_POLICIES, Mode
from sluice.decisions import PastDecision
from sluice.hash_lists import ListedHash
from sluice.uploads.reasons import LIMIT_REASONS, Reason
from sluice.uploads.rules import checks_of, decide, failures, mode_of
from sluice.uploads.values import Facts, HashListFact, Rejection, Rules

MOST_SAMPLES: Final = 5  # of each reason
_MOST_RULES: Final = 100  # versions of the rules that are kept in memory
_NO_LISTS: Final[Mapping[str, Sequence[ListedHash]]] = MappingProxyType({})
_LISTED: Final = '"listed"'
# Rejections that the facts may not show: another upload took the last room while this one was judged.
_CLAIMED: Final = frozenset({*LIMIT_REASONS, Reason.STORAGE_QUOTA_EXCEEDED})


class Unknown(StrEnum):
    """The reason why changed rules cannot judge an earlier upload."""

    NOT_RECEIVED = "not_received"
    NOT_EXAMINED = "not_examined"
    NOT_SCANNED = "not_scanned"
    NOT_MEASURED = "not_measured"
    NOT_SEARCHED = "not_searched"
    NOT_COMPARED = "not_compared"
    DUPLICATE_CHANGED = "duplicate_changed"
    RATE_LIMIT = "rate_limit"
    ROOM_TAKEN = "room_taken"
    NOT_ASKED = "not_asked"
    NOT_ANSWERED = "not_answered"
    NOT_SANITISED = "not_sanitised"
    NOT_READ = "not_read"
    OTHER_EXAMPLES = "other_examples"
    NOT_READABLE = "not_readable"


WHY: Final[Mapping[Unknown, str]] = MappingProxyType(
    {
        Unknown.NOT_RECEIVED: "The file was rejected before all of its bytes had come.",
        Unknown.NOT_EXAMINED: "The file was rejected before its content was examined.",
        Unknown.NOT_SCANNED: "The file was not scanned for malware: the scan was off, or another check rejected it.",
        Unknown.NOT_MEASURED: "What policies need was not measured: by an earlier release, or with the policy "
        "legible off.",
        Unknown.NOT_SEARCHED: "Not all of the file could be searched for active content, and none was found.",
        Unknown.NOT_COMPARED: "Duplicates were not searched: the policy duplicates was off.",
        Unknown.DUPLICATE_CHANGED: "An earlier upload of the same bytes would be judged otherwise.",
        Unknown.RATE_LIMIT: "A change of the rate limit cannot be replayed: it depends on when uploads come.",
        Unknown.ROOM_TAKEN: "Another upload took the last room of the quota while this one was judged.",
        Unknown.NOT_ASKED: "The external check was not asked, or at another URL: what it says of the file is not "
        "known.",
        Unknown.NOT_ANSWERED: "The external check gave no answer.",
        Unknown.NOT_SANITISED: "The file was not sanitised as these rules ask for: what would be left is not known.",
        Unknown.NOT_READ: "The text of the document was not read, or not searched for all that the policy text names.",
        Unknown.OTHER_EXAMPLES: "The document was not compared with the examples that the context has now.",
        Unknown.NOT_READABLE: "The decision was written by another release and cannot be read.",
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A real or assumed outcome of an upload: `accepted`, `rejected` or `quarantined`, and its reason code."""

    outcome: str
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the uploads that a group counts."""

    report_id: str
    filename: str
    size_bytes: int


@dataclass(slots=True)
class Group:
    """Uploads with the same reason: how many there are, and the first few of them."""

    count: int = 0
    samples: list[Sample] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """The sums of a replay, which `add` fills decision by decision, the oldest first.

    The groups are by reason code: of the new verdict, or in `would_accept` of the old one. `other_reason` has the
    uploads that would be rejected or quarantined as before, for another reason.
    """

    rules: Rules
    judged: int = 0
    unchanged: int = 0
    would_reject: dict[Reason, Group] = field(default_factory=dict)
    would_accept: dict[Reason, Group] = field(default_factory=dict)
    would_quarantine: dict[Reason, Group] = field(default_factory=dict)
    other_reason: dict[Reason, Group] = field(default_factory=dict)
    unknown: dict[Unknown, int] = field(default_factory=dict)
    _earlier_rules: dict[str, Rules | None] = field(default_factory=dict)
    _changed_hashes: set[str] = field(default_factory=set)

    def add(self, decisions: Sequence[PastDecision], listed: Mapping[str, Sequence[ListedHash]] = _NO_LISTS) -> None:
        """Judge the decisions again and count them. `listed` are today's entries with the digests of `digests_in`."""
        for decision in decisions:
            self.judged += 1
            try:
                self._add(decision, listed)
            except (KeyError, TypeError, ValueError):  # one row that cannot be read does not stop the others
                self._count_unknown(Unknown.NOT_READABLE)

    def _add(self, decision: PastDecision, listed: Mapping[str, Sequence[ListedHash]]) -> None:
        if decision.rules not in self._earlier_rules:
            if len(self._earlier_rules) >= _MOST_RULES:
                self._earlier_rules.clear()
            earlier = Rules.from_json(json.loads(decision.rules))
            same = replace(earlier, version=self.rules.version) == self.rules
            self._earlier_rules[decision.rules] = None if same else earlier
        earlier_rules = self._earlier_rules[decision.rules]
        compares = self.rules.policies.need_duplicates
        is_same = earlier_rules is None and not (compares and self._changed_hashes)
        if is_same and not listed and _LISTED not in decision.facts:
            self.unchanged += 1
            return
        then = Facts.from_json(json.loads(decision.facts))
        facts = replace(then, listed=_listed_now(then, listed))
        if is_same and _decisive(facts) == _decisive(then):
            self.unchanged += 1
            return
        before = Verdict(decision.outcome, None if decision.reason is None else Reason(decision.reason))
        after = judge_again(
            facts,
            before,
            earlier_rules or self.rules,
            self.rules,
            duplicate_changed=compares and facts.sha256 in self._changed_hashes,
        )
        if compares and facts.sha256 is not None and _stays_stored(before, after) is not True:
            self._changed_hashes.add(facts.sha256)
        self._count(Sample(decision.report_id, facts.filename, facts.size_bytes), before, after)

    def _count(self, sample: Sample, before: Verdict, after: Verdict | Unknown) -> None:
        if isinstance(after, Unknown):
            self._count_unknown(after)
            return
        if after == before:
            self.unchanged += 1
            return
        if after.outcome == before.outcome:
            groups = self.other_reason
        else:
            groups = {
                "accepted": self.would_accept,
                "rejected": self.would_reject,
                "quarantined": self.would_quarantine,
            }[after.outcome]
        reason = after.reason or before.reason
        if reason is None:
            raise ValueError("a decision without a reason that was no acceptance")
        group = groups.setdefault(reason, Group())
        group.count += 1
        if len(group.samples) < MOST_SAMPLES:
            group.samples.append(sample)

    def _count_unknown(self, why: Unknown) -> None:
        self.unknown[why] = self.unknown.get(why, 0) + 1


def digests_in(decisions: Sequence[PastDecision]) -> Sequence[bytes]:
    """Return the digests in these decisions that are compared with today's hash lists.

    These are the SHA-256 of each file, and those of entries that it was found on. Entries that were added since with
    the MD5 or the SHA-1 of a file, or with a digest of one of its members, are not known to concern it.
    """
    found = set[bytes]()
    for decision in decisions:
        with suppress(AttributeError, KeyError, TypeError, ValueError):  # `Replay.add` counts what cannot be read
            facts = json.loads(decision.facts)
            entries = (facts.get("listed") or {}).get("entries", ())
            named = [facts.get("sha256"), *(entry["digest"] for entry in entries)]
            found.update(bytes.fromhex(digest) for digest in named if digest)
    return list(found)


def _listed_now(then: Facts, listed: Mapping[str, Sequence[ListedHash]]) -> HashListFact | None:
    """Return what today's entries say of a file."""
    if then.listed is None and (then.sha256 is None or then.sha256 not in listed):
        return None
    earlier = then.listed or HashListFact()
    own = {then.sha256, *(entry.digest for entry in earlier.entries if not entry.member)}
    entries = [entry for digest in sorted(filter(None, own)) for entry in listed.get(digest, ())]
    for member in earlier.entries:
        if member.member:
            entries += [replace(entry, member=member.member) for entry in listed.get(member.digest, ())]
    return replace(earlier, entries=tuple(entries))


def _decisive(facts: Facts) -> tuple[object, ...]:
    """Return what decides of the entries that a file was found on."""
    if facts.listed is None:
        return None, False
    own, member = facts.listed.own, facts.listed.denied_member
    return None if own is None else own.list, member is not None


def judge_again(
    facts: Facts, before: Verdict, earlier: Rules, rules: Rules, *, duplicate_changed: bool = False
) -> Verdict | Unknown:
    """Return what `rules` make of an upload that ended in `before` by the rules `earlier`.

    `duplicate_changed`: an earlier upload of the same bytes would be stored now, or no longer.
    """
    failed = list(failures(facts, rules))
    rejection = next((failure for failure in failed if failure.mode is Mode.ENFORCE), None)
    gaps = list(_gaps(facts, earlier, rules, failed, duplicate_changed=duplicate_changed))
    order = {check: number for number, check in enumerate(checks_of(rules, facts))}
    gap = _first_gap(gaps, Mode.ENFORCE, rejection, order)
    if gap is not None:
        return gap
    if rejection is not None:
        return Verdict("rejected", rejection.reason)
    if before.outcome == "rejected" and before.reason in _CLAIMED and decide(facts, earlier) is None:
        if before.reason != Reason.STORAGE_QUOTA_EXCEEDED or rules.quota_bytes == earlier.quota_bytes:
            return before
        if rules.quota_bytes is not None:
            return Unknown.ROOM_TAKEN
    quarantine = next((failure for failure in failed if failure.mode is Mode.QUARANTINE), None)
    gap = _first_gap(gaps, Mode.QUARANTINE, quarantine, order)
    if gap is not None:
        return gap
    return Verdict("accepted", None) if quarantine is None else Verdict("quarantined", quarantine.reason)


_Gap = tuple[str, Mode, Unknown]  # a check that lacks a fact, its mode, and why


def _first_gap(gaps: Sequence[_Gap], mode: Mode, failure: Rejection | None, order: Mapping[str, int]) -> Unknown | None:
    """Return why a check of `mode` up to that of `failure` cannot be made; None if all can."""
    last = len(order) if failure is None else order[failure.check]
    return next((why for check, its_mode, why in gaps if its_mode is mode and order[check] <= last), None)


def _gaps(
    facts: Facts, earlier: Rules, rules: Rules, failed: Sequence[Rejection], *, duplicate_changed: bool
) -> Iterator[_Gap]:
    """Yield the checks that cannot be made since a fact is missing, in their order."""
    if facts.sha256 is None:
        if facts.size_bytes <= rules.max_bytes:
            yield "size", Mode.ENFORCE, Unknown.NOT_RECEIVED
        return  # rejected by its name, or too large already: no other check comes to it
    if facts.quota_used_bytes is None:
        yield "plan", Mode.ENFORCE, Unknown.NOT_EXAMINED
        return
    if rules.rate is not None and (rules.rate != earlier.rate or facts.rate is None):
        yield "rate", Mode.ENFORCE, Unknown.RATE_LIMIT
    duplicates = rules.policies.duplicates
    if duplicates is not None and (duplicate_changed or facts.duplicate_of is None):
        why = Unknown.NOT_COMPARED if facts.duplicate_of is None else Unknown.DUPLICATE_CHANGED
        yield "policy.duplicates", duplicates.mode, why
    if facts.examined is None:
        if rules.reject_corrupt or rules.reject_blank or rules.policies.content_modes:
            yield "integrity.type", Mode.ENFORCE, Unknown.NOT_EXAMINED
    elif rules.policies.content_modes:
        yield from _policy_gaps(facts, rules, {failure.check for failure in failed})
    if rules.scan and facts.scanned is None and not (facts.listed is not None and facts.listed.is_allowed):
        yield "malware", rules.check_modes.malware, Unknown.NOT_SCANNED
    if rules.sanitise is not None and (facts.sanitised is None or rules.sanitise != earlier.sanitise):
        yield "sanitise", Mode.ENFORCE, Unknown.NOT_SANITISED
    yield from _text_gaps(facts, earlier, rules)
    kind = rules.policies.asked_kind
    if kind is not None and rules.kind is not None and (facts.kind is None or facts.kind.kind != rules.kind):
        yield "policy.document_kind", kind.mode, Unknown.OTHER_EXAMPLES
    yield from _external_gaps(facts, earlier, rules)


def _text_gaps(facts: Facts, earlier: Rules, rules: Rules) -> Iterator[_Gap]:
    policy, before = rules.policies.asked_text, earlier.policies.asked_text
    if policy is None:
        return
    if facts.text is None or before is None or not policy.is_answered_by(before):
        yield "policy.text", policy.mode, Unknown.NOT_READ


def _external_gaps(facts: Facts, earlier: Rules, rules: Rules) -> Iterator[_Gap]:
    addresses = {rule.name: rule.address for rule in earlier.external_checks}
    found = {fact.name: fact for fact in facts.external}
    for rule in rules.external_checks:
        fact = found.get(rule.name)
        if fact is None or addresses.get(rule.name) != rule.address:
            if rule.mode is Mode.ENFORCE:
                yield rule.check, Mode.ENFORCE, Unknown.NOT_ASKED
            if rule.mode is not Mode.REPORT:
                yield rule.check, Mode.QUARANTINE, Unknown.NOT_ASKED  # which a check may answer, too
        elif fact.verdict is None and rule.without_answer == "refuse":
            yield rule.check, Mode.ENFORCE, Unknown.NOT_ANSWERED


def _policy_gaps(facts: Facts, rules: Rules, failed: set[str]) -> Iterator[_Gap]:
    if facts.report is None:
        return  # the check died or overran its limits: the file fails all of them by that
    measured = facts.report.facts
    legible, is_picture = rules.policies.legible, "frames" in measured
    if legible is not None and is_picture and "exposure" not in measured and "policy.legible" not in failed:
        yield "policy.legible", legible.mode, Unknown.NOT_MEASURED
    complete = measured.get("flags_complete")
    if complete is True:
        return
    for name in CONTENT_POLICIES:
        mode, check = mode_of(f"policy.{name}", rules), f"policy.{name}"
        if mode is None or check in failed or name == "content_types":
            continue
        if complete is None:
            yield check, mode, Unknown.NOT_MEASURED
        elif name == "active_content":
            yield check, mode, Unknown.NOT_SEARCHED


def _stays_stored(before: Verdict, after: Verdict | Unknown) -> bool | None:
    """Return whether the bytes are stored after a change as before it; None if that is unknown."""
    if isinstance(after, Unknown):
        return None
    return (before.outcome == "rejected") == (after.outcome == "rejected")
