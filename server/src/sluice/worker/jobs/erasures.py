"""Erasures of persons: a job that walks through everything a tenant has, table by table, a portion in each step.

First the files, which begin to be purged at once, and the exports that may list them; then whatever names the person
besides; then it waits until the objects and the bytes of resumable uploads are gone and the counts are folded, and at
last until SQLite's log has nothing of before. A step forgets only what an earlier one has put on the list, so a crash
between two repeats nothing. The job's `position` is the phase, and the last id that was examined.
"""

import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from sluice.audit.repository import append, append_all
from sluice.db.sql import AnyRow, Connection
from sluice.erasures import repository
from sluice.erasures.subject import ERASED, ErasureSubject, blank_event, blank_facts, blank_params, mentions
from sluice.events import outbox
from sluice.events.catalogue import ErasureCompleted
from sluice.files import lifecycle
from sluice.files.lifecycle import FileState
from sluice.jobs import Job
from sluice.jobs import repository as job_rows
from sluice.kit.clock import Clock
from sluice.kit.failpoints import failpoint
from sluice.kit.ids import first_id
from sluice.worker.job import Step

LOG_POSITION: Final = "log:"
"""Where an erasure is done as soon as the log of the database has nothing left of what was overwritten."""
LOOKED_AT: Final = 1000
"""The most rows of a table in one step."""
_HASH_ENTRIES: Final = 2000  # the same, of hash lists, which have millions
_FILES: Final = 25  # files that one step deletes, since uploads into their contexts wait for it
_PAUSE: Final = timedelta(seconds=1)
_MOST_NAMES: Final = 100
_ENDED: Final = frozenset({"done", "failed", "cancelled"})
_LISTED_STATES: Final = frozenset({FileState.STORED, FileState.DELETED, FileState.PURGING})


class Erasing:
    """Does the steps of erasures."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # In this order. Each handles a portion after an id, and returns the next one, or None at its end.
        self._phases: Mapping[str, Callable[[Connection, _Erasure, str], Awaitable[Step]]] = {
            "files": self._files,
            "exports": self._exports,
            "decisions": _decisions,
            "tokens": self._tokens,
            "hash_entries": _hash_entries,
            "resumable": _resumable,
            "events": _events,
            "people": _people,
            "holds": partial(_holds, "file"),
            "context_holds": partial(_holds, "context"),
            "jobs": _jobs,
            "audit": _audit,
            "token_names": _token_names,  # whose uploads are the person's was looked up in them until here
            "objects": _objects,
        }

    async def step(self, connection: Connection, job: Job, most: int) -> Step:
        """Do one step of the job, with at most `most` rows of a table, and return where the next one begins."""
        if job.position == LOG_POSITION:
            return await self._end(connection, job)
        phase, _, after = (job.position or "files:").partition(":")
        erasure = _Erasure(job, most)
        step = await self._phases[phase](connection, erasure, after)
        if step.position is not None:
            return replace(step, position=f"{phase}:{step.position}", params=erasure.params)
        names = list(self._phases)
        following = names.index(phase) + 1
        if following < len(names):
            return replace(step, position=f"{names[following]}:", params=erasure.params)
        salt, subject = secrets.token_bytes(16), erasure.subject
        ended = {
            "subject": {"kind": subject.kind, "salt": salt.hex(), "hmac_sha256": subject.digest(salt)},
            "blanked": erasure.params["blanked"],
        }
        return replace(step, position=LOG_POSITION, params=ended)

    async def _files(self, connection: Connection, erasure: "_Erasure", after: str) -> Step:
        rows = await repository.load_files(connection, erasure.tenant_id, after, erasure.most)
        theirs: list[AnyRow] = []
        last = erasure.last(rows, "file_id")
        for row in rows:
            subject = erasure.subject
            is_theirs = subject.sent(row.uploaded_by, row.uploaded_by_name) or subject.is_in(row.metadata)
            if not is_theirs or not erasure.is_old("file", row.file_id):
                continue
            if row.state == FileState.PENDING and not theirs:  # it is stored in a moment, or never
                return Step(0, 0, after, pause=_PAUSE)
            if row.state == FileState.PENDING or len(theirs) == _FILES:
                last = theirs[-1].file_id
                break
            theirs.append(row)
        if erasure.subject.uploaded_by is not None:
            looked_at = [row.file_id for row in rows]
            await repository.blank_reviewers(connection, erasure.tenant_id, erasure.subject.uploaded_by, looked_at)
        if not theirs:
            return Step(0, 0, last)
        erasure.note_names(row.uploaded_by_name for row in theirs)
        by, file_ids = erasure.job.by("file.erased"), [row.file_id for row in theirs]
        begun = set(await lifecycle.erase_all(connection, by, file_ids, self._clock()))
        begun |= {row.file_id for row in theirs if row.state == FileState.PURGING}
        listed = [
            {
                "file_id": row.file_id,
                "sha256": row.sha256,
                "size_bytes": row.size_bytes,
                "outcome": ERASED if row.file_id in begun else "held",
            }
            for row in theirs
            if row.state in _LISTED_STATES
        ]
        if listed:
            await repository.add_listed(connection, erasure.tenant_id, erasure.job.job_id, listed)
        held = sum(row["outcome"] != ERASED for row in listed)
        return Step(len(listed) - held, held, last)

    async def _exports(self, connection: Connection, erasure: "_Erasure", last: str) -> Step:
        """End the exports that began before the files were erased, since they may name the person."""
        now = self._clock()
        last = last or max(first_id("job", now + timedelta(milliseconds=1)), erasure.newest.get("job", ""))
        if await job_rows.end_exports(connection, erasure.tenant_id, last, now):
            return Step(0, 0, last, pause=_PAUSE)
        return Step(0, 0, None)

    async def _tokens(self, connection: Connection, erasure: "_Erasure", after: str) -> Step:
        subject, tenant_id = erasure.subject, erasure.tenant_id
        rows = await repository.load_tokens(connection, tenant_id, after, erasure.most)
        theirs = [row for row in rows if subject.owns_token(row.token_id, row.end_user, row.metadata)]
        if theirs:
            await repository.revoke_tokens(connection, tenant_id, [row.token_id for row in theirs])
            by = erasure.job.by("upload_token.revoked")
            revoked = [row.token_id for row in theirs if row.revoked_at is None]
            await append_all(connection, by, revoked, self._clock())
            erasure.count("upload_tokens", len(theirs))
        if subject.uploaded_by is not None:
            await repository.blank_creators(connection, tenant_id, subject.uploaded_by)
        return Step(0, 0, erasure.last(rows, "token_id"))

    async def _end(self, connection: Connection, job: Job) -> Step:
        now = self._clock()
        await append(connection, job.by("erasure.completed"), job.job_id, now)
        completed = ErasureCompleted(erasure_id=job.job_id, files_erased=job.done, files_held=job.skipped)
        await outbox.add(connection, job.tenant_id, completed, now)
        failpoint("erasure.open")
        return Step(0, 0, None)


class _Erasure:
    """The job of an erasure, with what it has found so far."""

    def __init__(self, job: Job, most: int) -> None:
        self.job = job
        self.most = most
        self.tenant_id = job.tenant_id
        self.subject = ErasureSubject.from_json(job.params)
        self.newest: Mapping[str, str] = job.params.get("newest", {})
        self._names = list(job.params.get("names", ()))
        self._blanked = Counter[str](job.params.get("blanked", {}))

    @property
    def params(self) -> dict[str, Any]:
        """The state of the job for its next step."""
        kept = {"names": self._names, "blanked": dict(self._blanked), "newest": self.newest}
        return {**self.subject.to_json(), **kept}

    @property
    def terms(self) -> tuple[str, ...]:
        """The texts that name the person."""
        return self.subject.terms(self._names)

    def is_old(self, prefix: str, row_id: str) -> bool:
        """Return whether a row was there when the erasure was asked for; what comes later is another matter."""
        until = first_id(prefix, self.job.created_at + timedelta(milliseconds=1))
        return row_id < until or row_id <= self.newest.get(prefix, "")

    def last(self, rows: Sequence[AnyRow], name: str) -> str | None:
        """Return the id after which the next portion begins, None after the last."""
        return getattr(rows[-1], name) if len(rows) == self.most else None

    def note_names(self, names: Any) -> None:
        """Remember names of the uploader, which other texts may hold. An API key has a name of its own."""
        if self.subject.uploaded_by is None or self.subject.is_machine:
            return
        self._names = list(dict.fromkeys([*self._names, *filter(None, names)]))[:_MOST_NAMES]

    async def tokens_among(self, connection: Connection, actor_ids: Iterable[str | None]) -> frozenset[str]:
        """Return which of the actors are upload tokens of the person, as far as their names are not blanked yet."""
        token_ids = {actor_id for actor_id in actor_ids if actor_id is not None and actor_id.startswith("utk_")}
        rows = await repository.find_tokens(connection, self.tenant_id, token_ids) if token_ids else ()
        return frozenset(
            row.token_id for row in rows if self.subject.owns_token(row.token_id, row.end_user, row.metadata)
        )

    def count(self, what: str, number: int) -> None:
        """Count rows whose names were blanked."""
        if number:
            self._blanked[what] += number


async def _decisions(connection: Connection, erasure: _Erasure, after: str) -> Step:
    subject, tenant_id = erasure.subject, erasure.tenant_id
    rows = await repository.load_decisions(connection, tenant_id, after, erasure.most)
    file_ids = [row.file_id for row in rows if row.file_id is not None]
    listed = await repository.find_listed(connection, tenant_id, erasure.job.job_id, file_ids)
    token_ids = await erasure.tokens_among(connection, (row.actor_id for row in rows))

    def is_theirs(row: AnyRow) -> bool:
        if row.file_id in listed:
            return listed[row.file_id] == ERASED  # a hold protects the report of a file, too
        is_sent = row.actor_id in token_ids
        is_sent = is_sent or subject.sent(row.actor_id or row.actor.get("id"), row.actor.get("name"))
        return is_sent and erasure.is_old("rep", row.report_id)

    theirs = [row.report_id for row in rows if is_theirs(row)]
    if theirs:
        found = await repository.load_facts(connection, tenant_id, theirs)
        erasure.note_names(row.actor.get("name") for row in found if row.actor.get("id") == subject.uploaded_by)
        blanked = [
            {
                "id": row.report_id,
                "actor": {"id": ERASED, "name": ERASED, "via": row.actor.get("via")},
                "facts": blank_facts(row.facts),
            }
            for row in found
        ]
        await repository.blank_decisions(connection, tenant_id, blanked)
        await repository.forget_keys(connection, tenant_id, theirs)
        erasure.count("reports", len(theirs))
    return Step(0, 0, erasure.last(rows, "report_id"))


async def _hash_entries(connection: Connection, erasure: _Erasure, after: str) -> Step:
    """Blank the person as who added entries of hash lists."""
    name = erasure.subject.uploaded_by
    if name is None:
        return Step(0, 0, None)
    begin = bytes.fromhex(after)
    last = await repository.blank_hash_entries(connection, erasure.tenant_id, name, begin, _HASH_ENTRIES)
    return Step(0, 0, None if last is None else last.hex())


async def _resumable(connection: Connection, erasure: _Erasure, after: str) -> Step:
    subject, tenant_id = erasure.subject, erasure.tenant_id
    rows = await repository.load_resumable(connection, tenant_id, after, erasure.most)
    token_ids = await erasure.tokens_among(connection, (row.actor_id for row in rows))
    theirs = [
        row
        for row in rows
        if row.actor_id in token_ids or subject.sent(row.actor_id, None) or subject.is_in(_json(row.metadata))
    ]
    if any(row.state == "judging" for row in theirs):
        return Step(0, 0, after, pause=_PAUSE)  # it is stored, rejected or open again in a moment
    ended = [row.upload_id for row in theirs]
    if ended:
        await repository.end_resumable(connection, tenant_id, ended)
        erasure.count("resumable_uploads", len(ended))
    return Step(0, 0, erasure.last(rows, "upload_id"))


async def _events(connection: Connection, erasure: _Erasure, after: str) -> Step:
    tenant_id = erasure.tenant_id
    rows = await repository.load_events(connection, tenant_id, after, erasure.most)
    file_ids = [row.data["file_id"] for row in rows if row.data.get("file_id")]
    listed = await repository.find_listed(connection, tenant_id, erasure.job.job_id, file_ids)
    senders = (row.data.get(name) for row in rows for name in ("uploaded_by", "token_id"))
    token_ids = await erasure.tokens_among(connection, senders)
    changed = {}
    for row in rows:
        is_old = erasure.is_old("evt", row.event_id)
        is_theirs = row.data.get("file_id") in listed or (is_old and erasure.subject.concerns(row.data, token_ids))
        data = blank_event(row.data, erasure.subject, is_theirs=is_theirs)
        if data != row.data:
            changed[row.event_id] = data
    if changed:
        await repository.blank_events(connection, tenant_id, changed)
        erasure.count("events", len(changed))
    return Step(0, 0, erasure.last(rows, "event_id"))


async def _people(connection: Connection, erasure: _Erasure, _after: str) -> Step:
    """End the person's sessions, and blank it as who held contexts."""
    name = erasure.subject.uploaded_by
    if name is not None and not erasure.subject.is_machine:
        await repository.end_sessions(connection, erasure.tenant_id, name)
        await repository.blank_context_holds(connection, erasure.tenant_id, name)
    return Step(0, 0, None)


async def _holds(kind: repository.HoldKind, connection: Connection, erasure: _Erasure, after: str) -> Step:
    """Blank why files and contexts are held where that names the person, but for its own files that a hold keeps."""
    tenant_id, terms = erasure.tenant_id, erasure.terms
    rows = await repository.load_hold_reasons(connection, tenant_id, kind, after, erasure.most)
    naming = [row.id for row in rows if mentions(row.hold_reason, terms)]
    if naming:
        listed = await repository.find_listed(connection, tenant_id, erasure.job.job_id, naming)
        blanked = [held_id for held_id in naming if held_id not in listed]
        await repository.blank_hold_reasons(connection, tenant_id, kind, blanked)
        erasure.count("holds", len(blanked))
    return Step(0, 0, erasure.last(rows, "id"))


async def _jobs(connection: Connection, erasure: _Erasure, after: str) -> Step:
    """Blank the names in jobs that have ended, and wait for others.

    Erasures, this one too, blank what they were asked for at their end: of these, only who asked is blanked.
    """
    terms, subject = erasure.terms, erasure.subject
    person = None if subject.is_machine else subject.uploaded_by
    rows = await repository.load_jobs(connection, erasure.tenant_id, after, erasure.most)
    blanked = []
    for row in rows:
        is_actor = person is not None and row.actor_id == person
        is_open_erasure = row.kind == "erasure" and row.state not in _ENDED
        params = row.params if is_open_erasure else blank_params(row.params, terms, subject, is_actor=is_actor)
        if params == row.params and not is_actor:
            continue
        if row.state not in _ENDED and not is_open_erasure:
            return Step(0, 0, after, pause=_PAUSE)
        actor = (ERASED, ERASED) if is_actor else (row.actor_id, row.actor_name)
        blanked.append({"job_id": row.job_id, "params": params, "actor_id": actor[0], "actor_name": actor[1]})
    if blanked:
        await repository.blank_jobs(connection, erasure.tenant_id, blanked)
        erasure.count("jobs", len(blanked))
    return Step(0, 0, erasure.last(rows, "job_id"))


async def _audit(connection: Connection, erasure: _Erasure, after: str) -> Step:
    """Blank the person in the audit log: as actor, as target, and where a reason names it.

    What an API key did stays in its id: that is no name.
    """
    subject, terms = erasure.subject, erasure.terms
    rows = await repository.load_audit(connection, erasure.tenant_id, after, erasure.most)
    token_ids = await erasure.tokens_among(connection, (row.actor_id for row in rows))
    blanked = []
    for row in rows:
        is_sender = row.actor_id in token_ids or subject.sent(row.actor_id, row.actor_name)
        is_actor = is_sender and not (row.actor_id or "").startswith("key_")
        entry = {
            "event_id": row.event_id,
            "actor_id": ERASED if is_actor else row.actor_id,
            "actor_name": ERASED if is_actor else row.actor_name,
            "target": ERASED if row.target in terms else row.target,
            "reason": ERASED if mentions(row.reason, terms) else row.reason,
        }
        if any(entry[name] != getattr(row, name) for name in entry):
            blanked.append(entry)
    if blanked:
        await repository.blank_audit(connection, erasure.tenant_id, blanked)
        erasure.count("audit_entries", len(blanked))
    return Step(0, 0, erasure.last(rows, "event_id"))


async def _token_names(connection: Connection, erasure: _Erasure, after: str) -> Step:
    """Forget whom the person's upload tokens name."""
    rows = await repository.load_tokens(connection, erasure.tenant_id, after, erasure.most)
    owns = erasure.subject.owns_token
    theirs = [row.token_id for row in rows if owns(row.token_id, row.end_user, row.metadata)]
    if theirs:
        await repository.blank_tokens(connection, erasure.tenant_id, theirs)
    return Step(0, 0, erasure.last(rows, "token_id"))


async def _objects(connection: Connection, erasure: _Erasure, _after: str) -> Step:
    """Wait until the objects and the bytes of uploads are gone, and no count names the person any more."""
    tenant_id, terms = erasure.tenant_id, erasure.terms
    is_open = await repository.has_objects(connection, tenant_id, erasure.job.job_id)
    is_open = is_open or await repository.has_resumable(connection, tenant_id)
    if is_open or (terms and await repository.has_counts(connection, tenant_id, terms)):
        return Step(0, 0, "", pause=_PAUSE)
    return Step(0, 0, None)


def _json(text: str | None) -> object:
    with suppress(ValueError, TypeError):
        return json.loads(text or "")
    return None
