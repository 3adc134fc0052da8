"""The way of an upload, top to bottom: receive, admit, inspect, commit. Knows nothing of HTTP.

    receive   the form's parts in any order: fields are checked, bytes go to a spool; name and size are checked early
    admit     rate limit, monthly plan, storage quota, hash lists
    inspect   the file check and the malware scan, at the same time, on the same sealed bytes (`inspection`)
    sanitise  take out what the context does not want to store, and inspect what is left (`sanitising`)
    read      what the text of the document contains, and how alike it is to examples, if policies ask (`texts`)
    ask       the external checks of the context, if it has some and nothing rejected the file (`external_checks`)
    commit    reserve room and write the row, store the object, record the file and its decision (`reservation`)

Facts grow, and each stage but the last judges what it added by the pure functions of `rules`: name and size, limits,
content, answers. Every verdict is one `Decision`, of which the row of the decision log, the report, the event and the
response are made.
Which rules apply, and when they are read again, is the business of `snapshot`.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final

from sluice.access import Principal
from sluice.buckets.stores import Stores
from sluice.contexts.policies import Mode
from sluice.db.database import Database, DatabaseUnavailable
from sluice.errors import (
    BucketInactive,
    FileRejected,
    IdempotencyKeyInUse,
    Invalid,
    LimitExceeded,
    ServiceUnavailable,
    StorageFull,
    TokenSpent,
)
from sluice.examples import ExampleDraft
from sluice.hash_lists.repository import find_listed
from sluice.idempotency_keys import KeyClaim
from sluice.kit.clock import Clock
from sluice.kit.ids import new_id
from sluice.kit.read_through_cache import Cached
from sluice.limiter import Limiter
from sluice.observe.log import log
from sluice.observe.metrics import TOLERATED_FAILURES
from sluice.scanner import Scanner
from sluice.upload_tokens import repository as token_rows
from sluice.uploads import repository
from sluice.uploads.external_checks import ExternalChecks, question_about
from sluice.uploads.form import UploadForm
from sluice.uploads.hash_lookup import look_up, look_up_members
from sluice.uploads.idempotency import claim_key, find_rejected, releasing
from sluice.uploads.inspection import LookUpMembers, inspect
from sluice.uploads.policies import NO_TEXT
from sluice.uploads.rate_limit import hold_place
from sluice.uploads.report import VerdictReport
from sluice.uploads.reservation import ClaimLost, record, release, reserve_at_once, reserve_step_by_step, store
from sluice.uploads.rules import (
    Judged,
    failures_of_sent,
    first_of_mode,
    is_as_stored,
    judge,
    judge_external,
    judge_kind,
    judge_limits,
    judge_name_and_size,
    judge_text,
    keeps_original,
    lacks_answer,
)
from sluice.uploads.sanitising import SpooledFile, sanitise_file
from sluice.uploads.slots import NoQuestionFree, UploadSlots
from sluice.uploads.snapshot import ReadPrincipal, SnapshotCache, UploadSnapshot
from sluice.uploads.speculative_put import SpeculativePut, prepare_put
from sluice.uploads.spool import Spool, SpoolRoom
from sluice.uploads.texts import compare_with_kind, read_text
from sluice.uploads.values import (
    Attempt,
    ContextSnapshot,
    Decision,
    ExternalFact,
    Facts,
    PendingFile,
    PlanFact,
    RateFact,
    ReceivedFile,
    Rejection,
    Rules,
    SanitisedFact,
    Stored,
    Usage,
    VerdictOutcome,
)
from sluice_inspect.document_kinds import WORDS_LEAST
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.kinds import read_example
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.text import NoText, TextUnavailable

LARGEST_FILE_BYTES: Final = 500 * 1_048_576  # of any context: holds while the context has not been named
# A store that takes longer than this part of the lease is given up: the worker must never fence a running upload.
_STORE_SHARE_OF_LEASE: Final = 0.8


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of the service, not of a context."""

    free_uploads_per_month: int
    validations_per_minute: int  # of a tenant
    lease: timedelta
    test_file_life: timedelta


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of an upload.

    `stores`: it is stored if it passes; otherwise it is only judged, nothing is charged, and no decision is logged.
    `all_checks`: the checks after the first failure are made too, as far as its bytes are there.
    `declared_bytes`: how many bytes will come, by the head of the request, if it states that.
    `attempt`: that of the resumable upload whose bytes came in earlier requests.
    `idempotency_key`: by which a repeated upload gets the response of the first.
    """

    stores: bool = True
    all_checks: bool = False
    declared_bytes: int | None = None
    attempt: Attempt | None = None
    idempotency_key: str | None = None


STORE: Final = Purpose()


@dataclass(frozen=True, slots=True)
class Uploads:
    """The services of uploads. `begin` one for each request."""

    database: Database
    limiter: Limiter
    sandbox: Sandbox
    scanner: Scanner
    stores: Stores
    snapshots: SnapshotCache
    slots: UploadSlots
    make_spool: Callable[[], Spool]
    room: SpoolRoom
    limits: UploadLimits
    clock: Clock
    external_checks: ExternalChecks

    def begin(
        self, caller: Cached[Principal], read_caller: ReadPrincipal, *, began: float, purpose: Purpose = STORE
    ) -> "Upload":
        """Return an upload of `caller` that began at `began`, on the monotonic clock."""
        return Upload(self, UploadSnapshot(self.snapshots, caller, read_caller, began=began), purpose, began)


class Upload:
    """One upload, from the first field of its form to its verdict. Close it in any case."""

    def __init__(self, engines: Uploads, snapshot: UploadSnapshot, purpose: Purpose, began: float) -> None:
        self.snapshot = snapshot
        self._engines = engines
        self._purpose = purpose
        self._began = began
        self._claim: KeyClaim | None = None
        self._permit = snapshot.principal.permit  # as this request was let in
        self._is_counted = self._permit is None or self._permit.is_counted
        self._asked: tuple[ExternalFact, ...] = ()
        self._sanitised: SpooledFile | None = None
        self._sent: tuple[Facts, ReceivedFile] | None = None  # which is kept, since it was sanitised
        self._asked_report_id: str | None = None  # which the questions to external checks had
        announced = LARGEST_FILE_BYTES if purpose.declared_bytes is None else purpose.declared_bytes
        self._form = UploadForm(engines.make_spool, engines.room, snapshot.principal.tenant_id, announced)

    async def announce(self, sent_name: str, size: int) -> None:
        """Judge what is known of a file before its bytes come, into the context that was named; claim nothing.

        Raise `Invalid` with every problem of the form, or what `finish` raises.
        """
        name = self._form.announce(sent_name, has_context=self.snapshot.context is not None)
        facts = Facts(name.original, name.extension, size)

        async def judge(caller: Principal, snapshot: ContextSnapshot) -> None:
            await self._admit(await self._judge_received(facts, caller, snapshot), caller, snapshot)

        await self.snapshot.retry_if_stale(judge)

    # Receive: fields and bytes, in any order

    async def name_context(self, context_key: str) -> None:
        """Take the context; raise `NotFound`, `ContextInactive`, or `FileRejected` if it is broken already."""
        await self.snapshot.name_context(context_key)
        await self._judge_so_far()

    async def start_file(self, sent_name: str) -> None:
        """Take the name of the file; raise `Invalid` or `FileRejected`."""
        self._form.take_name(sent_name)
        await self._judge_so_far()
        self._form.start_file()

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes of the file; raise `FileRejected` as soon as they are too many, `SpoolBusy` or
        `StorageFull`.
        """
        self._form.count(chunk)
        if self._form.size > self._most_bytes:
            await self._judge_so_far()
        await self._form.keep(chunk, self._most_bytes)  # bytes beyond the limit are counted, never kept

    async def write_all(self, size: int, fill: Callable[[Spool], Awaitable[None]]) -> None:
        """Take all `size` bytes of the file at once, which `fill` writes into their spool; raise what `write` does."""
        most_bytes = self._most_bytes
        await self._form.fill(size, most_bytes, fill)
        if size > most_bytes:
            await self._judge_so_far()

    def end_file(self) -> None:
        """Record that all bytes of the file have arrived."""
        self._form.is_whole = True

    def take_metadata(self, raw: bytes) -> None:
        """Take the metadata; what is wrong with it is reported by `seal`."""
        self._form.take_metadata(raw)

    async def seal(self) -> ReceivedFile:
        """Return the whole form; raise `Invalid` with every problem of it."""
        file = await self._form.seal(has_context=self.snapshot.context is not None)
        self.snapshot.is_received = True
        permit = self.snapshot.principal.permit
        return file if permit is None else replace(file, metadata={**file.metadata, **permit.metadata})

    def close(self) -> None:
        """Release the bytes. A second call is a no-op."""
        self.snapshot.close()
        self._form.close()
        self._keep_sanitised(None)

    @property
    def _most_bytes(self) -> int:
        return LARGEST_FILE_BYTES if self.snapshot.context is None else self.snapshot.context.rules.max_bytes

    async def _judge_so_far(self) -> None:
        """Reject the file as soon as its name or its size breaks a rule."""
        name = self._form.name
        if self.snapshot.context is None or name is None:
            return
        facts = Facts(name.original, name.extension, self._form.size, is_whole=self._form.is_whole)
        if _judged_received(facts, self.snapshot.context.rules).rejection is None:
            return
        await self.snapshot.confirm()
        rules = self.snapshot.context.rules
        judged = _judged_received(facts, rules)
        if judged.rejection is None or (self._purpose.all_checks and facts.size_bytes <= rules.max_bytes):
            return  # with all checks, only a file that is too large ends here: its bytes are not kept
        raise await self._reject(judged.rejection, judged, self.snapshot.principal, self.snapshot.context)

    # Verdict: admit, inspect, commit

    async def finish(self, file: ReceivedFile) -> Stored:
        """Judge the file by the rules of its context, in their order, and store it if it breaks none.

        An upload with an idempotency key ends as the first one with it did. Raise `FileRejected` or `LimitExceeded`
        with one reason code; `ServiceUnavailable`, `StorageFull` and others if the service itself failed: then nothing
        is stored and nothing charged.
        """
        key = self._purpose.idempotency_key
        if key is None:
            return await self._store(file)
        database = self._engines.database
        try:
            claimed = await claim_key(
                database,
                key,
                caller=self.snapshot.principal,
                context_key=self.snapshot.named.context.context_key,
                file=file,
                lease=self._engines.limits.lease,
            )
        except (FileRejected, IdempotencyKeyInUse):
            await self._return_attempt()
            raise
        if isinstance(claimed, Stored):
            await self._return_attempt()
            await self.snapshot.confirm_caller()
            return claimed
        self._claim = claimed
        async with releasing(claimed, database):
            await self._count_attempt()
            return await self._store(file)

    async def _count_attempt(self) -> None:
        """Count an upload with a token that was let in as a repetition and is none, before a verdict on it is taken.

        Raise `TokenSpent` if no upload can begin with the token.
        """
        if self._permit is None or self._is_counted:
            return
        tenant_id, at = self.snapshot.principal.tenant_id, self._engines.clock()
        async with self._engines.database.transaction(tenant_id) as connection:
            if not await token_rows.claim_attempt(connection, tenant_id, self._permit.token_id, at):
                raise TokenSpent
        self._is_counted = True

    async def _return_attempt(self) -> None:
        """Take back that this upload was counted: it is a repetition that did not look like one, or got no verdict."""
        if self._permit is not None and self._is_counted:
            tenant_id = self.snapshot.principal.tenant_id
            async with self._engines.database.transaction(tenant_id) as connection:
                await token_rows.return_attempt(connection, tenant_id, self._permit.token_id)

    async def _store(self, file: ReceivedFile) -> Stored:
        try:
            return await self.snapshot.retry_if_stale(partial(self._process, file))
        except (ServiceUnavailable, StorageFull) as fault:
            await self._return_attempt()  # there is no verdict
            fault.report = await self._report_undecided(fault, file)
            raise

    async def validate(self, file: ReceivedFile) -> VerdictReport:
        """Judge the file by all rules of its context, and store, charge and log nothing.

        Raise `ServiceUnavailable` and others as `finish` does.
        """
        return await self.snapshot.retry_if_stale(partial(self._validate, file))

    async def _validate(self, file: ReceivedFile, caller: Principal, snapshot: ContextSnapshot) -> VerdictReport:
        facts = await self._with_duplicate(_facts_of(file), snapshot)
        facts = await self._with_listed(facts, file.sealed, snapshot)
        facts = self._with_usage(facts, caller, snapshot, snapshot.usage)
        async with self._engines.slots.hold_inspection(self._token_id):
            judged = await self._inspect(judge(facts, snapshot.rules), file.sealed, snapshot, all_checks=True)
            if snapshot.rules.sanitise is not None:
                judged, file = await self._sanitise(judged, file, snapshot, all_checks=True)
            judged = await self._read_text(judged, file, snapshot, all_checks=True)
            judged = await self._compare(judged, file, snapshot, all_checks=True)
        if snapshot.rules.external_checks:
            judged = await self._ask(judged, file, caller, snapshot)
        await self.snapshot.require_current()
        return self._report(self._decision(judged, caller, snapshot))

    async def read_example(self, file: ReceivedFile) -> ExampleDraft:
        """Return what is kept of the file as an example of what its context expects.

        Raise `FileRejected` if the context would not accept it for its content, `Invalid` if it has no text to learn
        from, and others as `finish` does.
        """
        return await self.snapshot.retry_if_stale(partial(self._read_example, file))

    async def _read_example(self, file: ReceivedFile, caller: Principal, snapshot: ContextSnapshot) -> ExampleDraft:
        engines, tenant_id, sealed = self._engines, snapshot.context.tenant_id, file.sealed
        # By the content alone: nothing is stored, and other examples may be unlike this one.
        policies = snapshot.rules.policies.model_copy(update={"document_kind": None, "duplicates": None})
        rules = replace(
            snapshot.rules, policies=policies, quota_bytes=None, external_checks=(), sanitise=None, kind=None
        )
        snapshot = replace(snapshot, rules=rules)
        async with engines.slots.hold_inspection(self._token_id):
            facts = await self._with_listed(_facts_of(file), sealed, snapshot)
            judged = await self._inspect(judge(facts, rules), sealed, snapshot, all_checks=False)
            judged = await self._read_text(judged, file, snapshot, all_checks=False)
            judged = replace(judged, failures=tuple(map(_strictly, judged.failures)))
            await self._require_passing(judged, caller, snapshot, is_last=True)
            name = file.name.original
            try:
                text = await read_example(engines.sandbox, sealed, filename=name, tenant_id=tenant_id)
            except TextUnavailable as fault:
                raise ServiceUnavailable("file checker") from fault
        if isinstance(text, NoText):
            raise Invalid(f"file: {NO_TEXT[text.why]}, so that there is nothing to learn from it")
        if len(text.words) < WORDS_LEAST:
            found = f"found {len(text.words)} different words" if text.words else f"found none: {NO_TEXT['']}"
            raise Invalid(f"file: expected at least {WORDS_LEAST} different words, {found}")
        return ExampleDraft(name, sealed.sha256.hex(), sealed.size, judged.facts.content_type, text)

    async def _process(self, file: ReceivedFile, caller: Principal, snapshot: ContextSnapshot) -> Stored:
        self._sent = None  # of an earlier try
        judged = await self._judge_received(_facts_of(file), caller, snapshot)
        async with hold_place(self._engines.limiter, snapshot.context) as rate:
            judged = await self._admit(judged, caller, snapshot, rate, file.sealed)
            all_checks, rules = self._purpose.all_checks, snapshot.rules
            put = prepare_put(file, snapshot, self._engines.stores, self._engines.clock())
            try:
                async with self._engines.slots.hold_inspection(self._token_id):
                    # A large object is sent during the scan, and appears after the verdict. No byte of it leaves while
                    # an external check has yet to be asked, and none of what is yet to be sanitised.
                    on_checked = put.start if not rules.external_checks and rules.sanitise is None else None
                    judged = await self._inspect(
                        judged, file.sealed, snapshot, on_checked=on_checked, all_checks=all_checks
                    )
                    if rules.sanitise is not None:
                        judged, file = await self._sanitise(judged, file, snapshot, all_checks=all_checks)
                        put = prepare_put(file, snapshot, self._engines.stores, self._engines.clock())
                    judged = await self._read_text(judged, file, snapshot, all_checks=all_checks)
                    judged = await self._compare(judged, file, snapshot, all_checks=all_checks)
                if rules.external_checks:
                    judged = await self._ask(judged, file, caller, snapshot)
                judged = await self._require_passing(judged, caller, snapshot, is_last=True)
                return await self._commit(judged, file, caller, snapshot, put)
            finally:
                await put.cancel()

    async def _inspect(
        self,
        judged: Judged,
        sealed: Sealed,
        snapshot: ContextSnapshot,
        *,
        on_checked: Callable[[str], None] | None = None,
        all_checks: bool,
    ) -> Judged:
        return await inspect(
            judged,
            sealed,
            snapshot.context.tenant_id,
            snapshot.rules,
            sandbox=self._engines.sandbox,
            scanner=self._engines.scanner,
            on_checked=on_checked or (lambda _content_type: None),
            look_up_members=self._members_of(sealed, snapshot),
            all_checks=all_checks,
        )

    async def _sanitise(
        self, judged: Judged, file: ReceivedFile, snapshot: ContextSnapshot, *, all_checks: bool
    ) -> tuple[Judged, ReceivedFile]:
        """Take out of the file what its context wants, and judge what is left as what was sent; return both.

        A file that is rejected already stays as it is. Raise `ServiceUnavailable`, `SpoolBusy` or `StorageFull`.
        """
        engines, rules, tenant_id = self._engines, snapshot.rules, snapshot.context.tenant_id
        if rules.sanitise is None or judged.rejection is not None:
            return judged, file
        fact, spooled = await sanitise_file(
            file,
            rules.sanitise,
            sandbox=engines.sandbox,
            tenant_id=tenant_id,
            make_spool=engines.make_spool,
            room=engines.room,
        )
        self._keep_sanitised(spooled)
        self._sent = (judged.facts, file) if keeps_original(fact, rules) else None
        if spooled is None:
            return judge(replace(judged.facts, sanitised=fact), rules), file
        sealed, fact = spooled.file.sealed, replace(fact, sent_failures=failures_of_sent(judged))
        facts = replace(
            judged.facts,
            size_bytes=sealed.size,
            sha256=sealed.sha256.hex(),
            examined=None,
            scanned=None,
            sanitised=fact,
        )
        facts = await self._with_listed(await self._with_duplicate(facts, snapshot), sealed, snapshot)
        judged = judge(facts, rules)
        if judged.rejection is None or all_checks:
            judged = await self._inspect(judged, sealed, snapshot, all_checks=all_checks)
        return judge(judged.facts, rules), spooled.file

    async def _read_text(
        self, judged: Judged, file: ReceivedFile, snapshot: ContextSnapshot, *, all_checks: bool
    ) -> Judged:
        """Add what the text of the document contains and judge it, if a policy asks for it; raise `ServiceUnavailable`.

        What is read is what would be stored; the text of a file that is rejected already is not.
        """
        engines, rules, facts = self._engines, snapshot.rules, judged.facts
        policy = rules.policies.asked_text
        if policy is None or not is_as_stored(facts, rules) or (judged.rejection is not None and not all_checks):
            return judged
        fact = await read_text(
            file.sealed,
            facts.filename,
            policy,
            engines.clock().date(),
            sandbox=engines.sandbox,
            tenant_id=snapshot.context.tenant_id,
        )
        facts = replace(facts, text=fact)
        return judged.with_failures(facts, judge_text(facts, rules))

    async def _compare(
        self, judged: Judged, file: ReceivedFile, snapshot: ContextSnapshot, *, all_checks: bool
    ) -> Judged:
        """Add how alike the document is to the examples of the context, likewise."""
        engines, rules, facts = self._engines, snapshot.rules, judged.facts
        is_stopped = judged.rejection is not None and not all_checks
        if rules.policies.asked_kind is None or not is_as_stored(facts, rules) or is_stopped:
            return judged
        fact = await compare_with_kind(file.sealed, facts.filename, snapshot.context, sandbox=engines.sandbox)
        facts = replace(facts, kind=fact)
        return judged.with_failures(facts, judge_kind(facts, rules))

    def _keep_sanitised(self, spooled: SpooledFile | None) -> None:
        """Keep the bytes of a sanitised file until the upload ends, instead of those of an earlier try."""
        if self._sanitised is not None:
            self._sanitised.close()
        self._sanitised = spooled

    async def _ask(self, judged: Judged, file: ReceivedFile, caller: Principal, snapshot: ContextSnapshot) -> Judged:
        """Add what the external checks say and judge it; a file that is rejected already gets no question.

        Raise `ServiceUnavailable` if one gave no answer whose absence refuses the upload, `StaleSnapshot` before any is
        asked by rules that had changed.
        """
        if judged.rejection is not None and not self._purpose.all_checks:
            return judged
        await self.snapshot.require_current()
        engines, report = self._engines, judged.facts.report
        self._asked_report_id = self._chosen_report_id or self._asked_report_id or new_id("rep", engines.clock())
        question = question_about(
            report_id=self._asked_report_id,
            context=snapshot.context,
            name=file.name.original,
            content_type=judged.facts.content_type,
            sealed=file.sealed,
            flags=() if report is None else report.flags,
            facts={} if report is None else report.facts,
            metadata=file.metadata,
            uploader={"id": caller.actor_id, "name": caller.actor_name},
            is_dry_run=not self._purpose.stores,
        )
        try:
            async with engines.slots.hold_question(caller.tenant_id):
                self._asked = await engines.external_checks.ask(snapshot.context, question, file.sealed)
        except NoQuestionFree:
            why = "it was not asked: too many questions are under way"
            self._asked = engines.external_checks.not_asked(snapshot.context, why)
        facts = replace(judged.facts, external=self._asked)
        judged = judged.with_failures(facts, judge_external(facts, snapshot.rules))
        if judged.rejection is None and lacks_answer(facts, snapshot.rules):
            raise ServiceUnavailable("external check")
        return judged

    async def _judge_received(self, facts: Facts, caller: Principal, snapshot: ContextSnapshot) -> Judged:
        """Judge name and size, of which `_judge_so_far` has judged what it knew by the rules that it knew."""
        return await self._require_passing(_judged_received(facts, snapshot.rules), caller, snapshot)

    async def _admit(
        self,
        judged: Judged,
        caller: Principal,
        snapshot: ContextSnapshot,
        rate: RateFact | None = None,
        sealed: Sealed | None = None,
    ) -> Judged:
        """Add what is used of rate, plan and quota, and what hash lists say of the bytes if they are there; judge it.

        Plan and quota are claimed later, with the row.
        """
        facts = self._with_usage(replace(judged.facts, rate=rate), caller, snapshot, snapshot.usage)
        if sealed is not None:
            facts = await self._with_listed(facts, sealed, snapshot)
        facts = await self._with_duplicate(facts, snapshot)
        no_place = rate is not None and rate.retry_after is not None
        judged = judged.with_failures(facts, judge_limits(facts, snapshot.rules))
        judged = await self._require_passing(judged, caller, snapshot, is_last=no_place)
        if snapshot.bucket is not None and not snapshot.bucket.is_active:
            await self.snapshot.require_current()
            raise BucketInactive
        return judged

    async def _commit(
        self, judged: Judged, file: ReceivedFile, caller: Principal, snapshot: ContextSnapshot, put: SpeculativePut
    ) -> Stored:
        """Store a file that broke no rule. No transaction is open while bytes move."""
        judged = await self._require_not_denied(judged, file.sealed, caller, snapshot)
        engines, limits = self._engines, self._engines.limits
        original = self._original_of(put.location.file_id, caller, snapshot)
        if original is not None and judged.facts.sanitised is not None:
            fact = replace(judged.facts.sanitised, original_file_id=original.pending.file_id)
            judged = replace(judged, facts=replace(judged.facts, sanitised=fact))
        facts, decision = judged.facts, self._decision(judged, caller, snapshot, file_id=put.location.file_id)
        attempt = self._purpose.attempt
        pending = PendingFile.of(put.location, decision, file, snapshot, lease=limits.lease, attempt=attempt)
        if original is not None:
            await self._reserve_and_store(original.pending, original.put, None, judged, caller, snapshot)
        try:
            await self._reserve_and_store(pending, put, self._claim, judged, caller, snapshot)
        except Exception:
            if original is not None:
                await release(original.pending, original.put.store, engines.database)
            raise
        life = limits.test_file_life if caller.is_test else None
        if original is not None:
            # First: if the server ends between the two, nothing is lost, and the sender sends the file again.
            await record(original.decision, original.pending, original.put.store, engines.database, life=life)
        await record(decision, pending, put.store, engines.database, life=life)
        for failure in decision.failures:
            TOLERATED_FAILURES.labels(failure.counted_as, failure.mode).inc()
        return Stored(
            file_id=pending.file_id,
            report_id=decision.report_id,
            outcome=decision.outcome,
            original_filename=file.name.original,
            content_type=facts.content_type,
            size_bytes=file.sealed.size,
            context_key=snapshot.context.context_key,
            metadata=file.metadata,
            rate=facts.rate,
            rate_limit=snapshot.context.upload_rate_limit,
        )

    async def _reserve_and_store(  # noqa: PLR0917  (what `_commit` has)
        self,
        pending: PendingFile,
        put: SpeculativePut,
        claim: KeyClaim | None,
        judged: Judged,
        caller: Principal,
        snapshot: ContextSnapshot,
    ) -> None:
        """Claim all that the file needs, and store its object; raise with nothing claimed and nothing stored."""
        database, limits = self._engines.database, self._engines.limits
        if not await reserve_at_once(pending, database, claim):
            await self.snapshot.require_current()
            try:
                await reserve_step_by_step(pending, database, limits.free_uploads_per_month, claim)
            except ClaimLost as lost:
                rejection = lost.to_rejection(snapshot.usage, free_limit=limits.free_uploads_per_month)
                raise await self._reject(rejection, judged, caller, snapshot) from lost
        await store(pending, put, database, seconds=limits.lease.total_seconds() * _STORE_SHARE_OF_LEASE)

    def _original_of(self, file_id: str, caller: Principal, snapshot: ContextSnapshot) -> "_Original | None":
        """Return what was sent as a file of its own, in quarantine; None if it is not kept. Nothing is claimed yet.

        It counts against the quota, and neither against a plan nor an upload token.
        """
        if self._sent is None:
            return None
        engines, (facts, file) = self._engines, self._sent
        sealed = file.sealed
        fact = SanitisedFact(sealed.sha256.hex(), sealed.size, stored_file_id=file_id)
        put = prepare_put(file, snapshot, engines.stores, engines.clock())
        judged = judge(replace(facts, plan=None, duplicate_of=None, sanitised=fact), snapshot.rules)
        decision = self._decision(judged, caller, snapshot, file_id=put.location.file_id)
        decision = replace(decision, report_id=new_id("rep", decision.created_at))
        pending = PendingFile.of(put.location, decision, file, snapshot, lease=engines.limits.lease, attempt=None)
        uploader = replace(caller, permit=None)
        pending = replace(pending, uploader=uploader, is_unique=False, sanitised_file_id=file_id)
        return _Original(pending, decision, put)

    async def _require_not_denied(
        self, judged: Judged, sealed: Sealed, caller: Principal, snapshot: ContextSnapshot
    ) -> Judged:
        """Look the file up by its SHA-256 once more, since an entry may have been added while it was inspected.

        The first entry of an algorithm is noticed by the reserving statement. Raise `FileRejected`.
        """
        if judged.facts.listed is None or "sha256" not in snapshot.hash_algorithms.deny:
            return judged
        fact = judged.facts.sanitised
        also = [] if fact is None or not fact.removed else [bytes.fromhex(fact.sent_sha256)]
        found = await look_up(self._engines.database, caller.tenant_id, sealed, {"sha256"}, also=also)
        if found.own is None or found.own.list != "deny":
            return judged
        listed = replace(judged.facts.listed, entries=(*found.entries, *judged.facts.listed.entries))
        facts = replace(judged.facts, listed=listed)
        judged = judged.with_failures(facts, judge_limits(facts, snapshot.rules))
        return await self._require_passing(judged, caller, snapshot, is_last=True)

    # What several steps share

    @property
    def _token_id(self) -> str | None:
        return None if self._permit is None else self._permit.token_id

    @property
    def _chosen_report_id(self) -> str | None:
        """The report id that the key claim or the attempt has chosen; None: the upload gets a new one."""
        return holder.report_id if (holder := self._claim or self._purpose.attempt) is not None else None

    async def _require_passing(
        self, judged: Judged, caller: Principal, snapshot: ContextSnapshot, *, is_last: bool = False
    ) -> Judged:
        """Return what was judged; raise `FileRejected` or `LimitExceeded` if it breaks a rule.

        An upload for which all checks are made is rejected at the last one.
        """
        if judged.rejection is None or (self._purpose.all_checks and not is_last):
            return judged
        # Nothing is refused by what may have changed: what is used of plan and quota is read again, since both come
        # before content.
        await self.snapshot.require_current()
        if judged.facts.quota_used_bytes is not None:
            facts = self._with_usage(judged.facts, caller, snapshot, await self.snapshot.read_usage())
            judged = judge(facts, snapshot.rules)
        if judged.rejection is None:
            return judged
        raise await self._reject(judged.rejection, judged, caller, snapshot)

    async def _reject(
        self, rejection: Rejection, judged: Judged, caller: Principal, snapshot: ContextSnapshot
    ) -> FileRejected | LimitExceeded:
        """Write a rejection into the decision log unless it is there already; return the error that the caller sees."""
        await self._count_attempt()
        decision = self._decision(judged, caller, snapshot, rejection=rejection)
        if self._purpose.stores:
            is_new = self._chosen_report_id is None
            if is_new and (earlier := await find_rejected(self._engines.database, decision)) is not None:
                return earlier
            await repository.reject(self._engines.database, decision, rejection)
            log.info(
                "upload_rejected",
                reason=rejection.reason.value,
                context_key=snapshot.context.context_key,
                tenant_id=caller.tenant_id,
                report_id=decision.report_id,
            )
        error = rejection.to_error()
        error.report = self._report(decision)
        return error

    async def _report_undecided(self, fault: ServiceUnavailable | StorageFull, file: ReceivedFile) -> VerdictReport:
        """Return the report of an upload that could not be judged or stored, and log it if the database can."""
        part = fault.part if isinstance(fault, ServiceUnavailable) else "storage"
        caller, snapshot = self.snapshot.principal, self.snapshot.named
        judged = judge(replace(_facts_of(file), external=self._asked), snapshot.rules)
        decision = replace(self._decision(judged, caller, snapshot), outcome="undecided", detail=part)
        if self._purpose.stores:
            with suppress(DatabaseUnavailable):
                await repository.write_decision(self._engines.database, decision)
        return self._report(decision)

    def _with_usage(self, facts: Facts, caller: Principal, snapshot: ContextSnapshot, usage: Usage) -> Facts:
        limit = self._engines.limits.free_uploads_per_month
        counts = snapshot.plan == "free" and not caller.is_test
        return replace(
            facts,
            plan=PlanFact(usage.plan_uploads, limit, usage.seconds_to_next_month) if counts else None,
            quota_used_bytes=usage.stored_bytes,
        )

    async def _with_duplicate(self, facts: Facts, snapshot: ContextSnapshot) -> Facts:
        """Return the facts with a stored file of the same bytes, if the context's policies ask for it."""
        if facts.sha256 is None or not snapshot.rules.policies.need_duplicates:
            return facts
        context, database = snapshot.context, self._engines.database
        found = await repository.find_duplicate(database, context.tenant_id, context.context_key, facts.sha256)
        return replace(facts, duplicate_of=found or "")

    async def _with_listed(self, facts: Facts, sealed: Sealed, snapshot: ContextSnapshot) -> Facts:
        """Return the facts with the entries of hash lists that the file is on, if there are any entries."""
        algorithms = snapshot.hash_algorithms.all
        if not algorithms:
            return facts
        database, tenant_id = self._engines.database, snapshot.context.tenant_id
        return replace(facts, listed=await look_up(database, tenant_id, sealed, algorithms))

    def _members_of(self, sealed: Sealed, snapshot: ContextSnapshot) -> LookUpMembers | None:
        """Return what compares the members of the file with hash lists; None if no entry denies any."""
        denied = snapshot.hash_algorithms.deny
        if not denied:
            return None
        engines, tenant_id = self._engines, snapshot.context.tenant_id
        find = partial(find_listed, engines.database, tenant_id)
        return partial(look_up_members, find, engines.sandbox, tenant_id, sealed, denied)

    def _decision(
        self,
        judged: Judged,
        caller: Principal,
        snapshot: ContextSnapshot,
        *,
        file_id: str | None = None,
        rejection: Rejection | None = None,
    ) -> Decision:
        """Return the decision by `rejection`, or by what was judged if there is none."""
        outcome: VerdictOutcome = "accepted"
        failed = judged.failures
        failure = rejection or judged.rejection
        if failure is not None:
            outcome = "rejected"
        elif (failure := first_of_mode(failed, Mode.QUARANTINE)) is not None:
            outcome = "quarantined"
        now = self._engines.clock()
        return Decision(
            report_id=self._chosen_report_id or self._asked_report_id or new_id("rep", now),
            tenant_id=caller.tenant_id,
            file_id=file_id,
            context_key=snapshot.context.context_key,
            rules=snapshot.rules,
            facts=judged.facts,
            outcome=outcome,
            rejection=failure,
            failures=failed,
            detail="" if failure is None else failure.detail,
            actor=caller,
            created_at=now,
            duration_ms=round((time.monotonic() - self._began) * 1000),
            all_checks=self._purpose.all_checks,
        )

    def _report(self, decision: Decision) -> VerdictReport:
        return VerdictReport.of(repository.decision_record(decision), is_dry_run=not self._purpose.stores)


@dataclass(frozen=True, slots=True)
class _Original:
    """What was sent of a file that was sanitised, about to be stored in quarantine."""

    pending: PendingFile
    decision: Decision
    put: SpeculativePut


def _judged_received(facts: Facts, rules: Rules) -> Judged:
    return Judged(facts, tuple(judge_name_and_size(facts, rules)))


def _strictly(failure: Rejection) -> Rejection:
    """Return the failure as one that refuses an example, which has no review: only what is reported is not refused."""
    return replace(failure, mode=Mode.ENFORCE) if failure.mode is Mode.QUARANTINE else failure


def _facts_of(file: ReceivedFile) -> Facts:
    return Facts(file.name.original, file.name.extension, file.sealed.size, file.sealed.sha256.hex())
