"""The way of an upload, from whole bytes to a verdict: the stages in order, straight down `run`. Knows nothing of HTTP.

Form uploads, commands and later doors all enter here, with a sealed spool and a mode. Every verdict is one row of the decision log.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sluice.access import Principal
from sluice.buckets.stores import Stores
from sluice.contexts.templates import render
from sluice.db.database import Database
from sluice.engines.limiter import Limiter, Taken
from sluice.engines.sandbox import Sandbox
from sluice.engines.scanner import Glance, Scanner
from sluice.errors import BucketInactive, ContextInactive, FileRejected, LimitExceeded
from sluice.kit.clock import Clock
from sluice.kit.ids import new_id
from sluice.observe.log import log
from sluice.uploads import repository
from sluice.uploads.ahead import Ahead
from sluice.uploads.decide import decide
from sluice.uploads.intake import Refused
from sluice.uploads.months import seconds_to_next_month
from sluice.uploads.reasons import LIMIT_REASONS, WORDS, Reason
from sluice.uploads.sight import Sight, Uploader
from sluice.uploads.stages.admit import allowances, take_place
from sluice.uploads.stages.commit import ClaimLost, Outdated, record, reserve, store
from sluice.uploads.stages.examine import examine
from sluice.uploads.stages.scan import ended, scan
from sluice.uploads.values import Arrival, Decision, Facts, Look, Mode, PendingFile, Rejection, Seen, Spot, Stored

_FRESH = timedelta(seconds=1)
"""How old a look may be when the allowances are judged."""
_BY_USE: Final = frozenset({Reason.MONTHLY_LIMIT_EXCEEDED, Reason.STORAGE_QUOTA_EXCEEDED})
"""Reasons that hang on how much is used, which changes without anybody changing a rule."""
_SHARE_OF_LEASE = 0.8
"""A store that takes longer is given up while the lease still holds, so that the worker never fences a living upload."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Figures of the service, not of a context: the free plan's monthly uploads, the lease, the life of a test key's files."""

    free_uploads_per_month: int
    lease: timedelta
    test_file_life: timedelta


class Pipeline:
    """Judges uploads and stores what passes."""

    def __init__(
        self,
        *,
        database: Database,
        limiter: Limiter,
        sandbox: Sandbox,
        scanner: Scanner,
        stores: Stores,
        sight: Sight,
        terms: Terms,
        clock: Clock,
    ) -> None:
        self.sight = sight
        self._database = database
        self._limiter = limiter
        self._sandbox = sandbox
        self._scanner = scanner
        self._stores = stores
        self._terms = terms
        self._clock = clock

    async def run(self, arrival: Arrival, uploader: Uploader, mode: Mode = "store") -> Stored:
        """Judge the upload by its context's rules, in their order, and store it if it passes all of them.

        Raises `FileRejected` or `LimitExceeded` with one reason code, or `Unavailable`, `StorageFull` and others when the service
        itself could not finish: then nothing is stored and nothing charged. What was judged by something remembered that has
        changed is judged once more, by what holds now.
        """
        if mode == "store":
            with suppress(Outdated):
                return await self._run(arrival, uploader, mode)
        return await self._run(await self._seen_again(arrival, uploader), uploader, mode)

    async def _run(self, arrival: Arrival, uploader: Uploader, mode: Mode) -> Stored:
        context, name, sealed = arrival.context, arrival.name, arrival.sealed
        facts = Facts(name.original, name.extension, sealed.size, sealed.sha256.hex())
        taken: Taken | None = None
        try:
            await self._judge(facts, arrival)
            admission = await take_place(facts, context, self._limiter)
            facts, taken = admission.facts, admission.taken
            await self._judge(facts, arrival)
            look = await self._fresh(arrival.look)
            facts = allowances(facts, arrival.principal, look, free_limit=self._terms.free_uploads_per_month)
            await self._judge(facts, arrival)
            _require_open(look)
            return await self._inspect_and_store(facts, arrival, look, mode)
        except Refused as refused:
            principal = await uploader.confirm()
            await self.log_rejection(refused, principal, mode)
            raise refusal_of(refused.rejection) from refused
        except BaseException:
            if taken is not None and context.upload_rate_limit is not None:
                await self._limiter.give_back(taken, window_seconds=context.upload_rate_limit.window_seconds)
            raise

    async def _inspect_and_store(self, facts: Facts, arrival: Arrival, look: Look, mode: Mode) -> Stored:
        ahead = Ahead(self._spot(arrival, look), arrival.sealed, self._stores.of(look.bucket))
        try:
            facts = await self._inspect(facts, arrival, ahead if mode == "store" else None)
            await self._judge(facts, arrival)
            return await self._commit(facts, arrival, look, mode, ahead)
        finally:
            await ahead.call_off()

    async def _judge(self, facts: Facts, arrival: Arrival) -> None:
        """Refuse what breaks the rules; where they are only remembered, look whether they still hold."""
        rejection, look = decide(facts, arrival.look.rules), arrival.look
        if rejection is None:
            return
        if look.remembered and (rejection.reason in _BY_USE or not look.same_as(await self._look_again(look))):
            raise Outdated
        raise Refused(rejection, facts, look)

    async def _look_again(self, look: Look) -> Look:
        return await self.sight.look(look.context.tenant_id, look.context.context_key)

    async def _seen_again(self, arrival: Arrival, uploader: Uploader) -> Arrival:
        """Answer the arrival with nothing in it that is only remembered; raises what says that it is no longer welcome."""
        if not arrival.remembered:
            return arrival
        principal, look = await uploader.confirm(), await self._look_again(arrival.look)
        if look.context.status != "active":
            raise ContextInactive
        return replace(arrival, principal=principal, look=look)

    async def log_rejection(self, refused: Refused, actor: Principal, mode: Mode = "store") -> None:
        """Write a rejection into the decision log, in a transaction of its own."""
        decision = self._decision(refused.facts, refused.look, actor, mode, rejection=refused.rejection)
        await repository.write_decision(self._database, decision)
        log.info(
            "upload_rejected",
            reason=refused.rejection.reason.value,
            context_key=refused.look.context.context_key,
            tenant_id=actor.tenant_id,
            report_id=decision.report_id,
        )

    async def _fresh(self, look: Look) -> Look:
        """Look again after a body that took its time. Short ones are spared the round trip: whatever was seen is claimed exactly later."""
        if self._clock() - look.at <= _FRESH:
            return look
        if look.remembered:
            return await self.sight.glance(look.context.tenant_id, look.context.context_key)
        return await self._look_again(look)

    async def _inspect(self, facts: Facts, arrival: Arrival, ahead: Ahead | None) -> Facts:
        """Let checker and scanner work on the same bytes at the same time. A rejection by the checker, which comes first, ends the scan.

        What passes the checker goes `ahead` to its store while the scan goes on.
        """
        rules, tenant_id = arrival.look.rules, arrival.principal.tenant_id
        if not rules.scan:
            return replace(facts, examined=await examine(arrival.sealed, arrival.name.original, tenant_id, self._sandbox))
        glance = Glance()
        scanning = asyncio.create_task(scan(arrival.sealed, tenant_id, self._scanner, glance))
        try:
            examined = await examine(arrival.sealed, arrival.name.original, tenant_id, self._sandbox, glance)
            facts = replace(facts, examined=examined)
            if decide(facts, rules) is not None:
                return facts
            if ahead is not None and not scanning.done():
                ahead.begin(facts.content_type)
            return replace(facts, scanned=await scanning)
        finally:
            await ended(scanning)

    async def _commit(self, facts: Facts, arrival: Arrival, look: Look, mode: Mode, ahead: Ahead) -> Stored:
        decision = self._decision(
            facts, arrival.look, arrival.principal, mode, file_id=ahead.spot.file_id if mode == "store" else None
        )
        if decision.file_id is None:
            await repository.write_decision(self._database, decision)
            return _stored(decision, arrival)
        file = self._pending(ahead.spot, decision, arrival, look)
        try:
            await reserve(file, self._database, free_limit=self._terms.free_uploads_per_month)
        except ClaimLost as lost:
            raise Refused(self._lost(lost, look), facts, arrival.look) from lost
        await store(file, ahead, self._database, seconds=self._terms.lease.total_seconds() * _SHARE_OF_LEASE)
        life = self._terms.test_file_life if arrival.principal.is_test else None
        await record(decision, file, ahead.to, self._database, life=life)
        return _stored(decision, arrival)

    def _spot(self, arrival: Arrival, look: Look) -> Spot:
        context, bucket, file_id = arrival.context, look.bucket, new_id("file")
        rendered = render(
            context.storage_path_template,
            tenant_id=context.tenant_id,
            context_key=context.context_key,
            file_id=file_id,
            extension=arrival.name.extension,
            sha256=arrival.sealed.sha256.hex(),
            at=self._clock(),
        )
        return Spot(file_id, rendered if bucket is None else bucket.key_for(rendered))

    def _pending(self, spot: Spot, decision: Decision, arrival: Arrival, look: Look) -> PendingFile:
        context, principal, bucket = arrival.context, arrival.principal, look.bucket
        return PendingFile(
            file_id=spot.file_id,
            tenant_id=context.tenant_id,
            context_id=context.context_id,
            context_key=context.context_key,
            name=arrival.name,
            content_type=decision.facts.content_type,
            size_bytes=arrival.sealed.size,
            sha256=arrival.sealed.sha256.hex(),
            storage_config_id=None if bucket is None else bucket.config_id,
            object_key=spot.object_key,
            uploader=principal,
            metadata=arrival.metadata,
            counts=decision.facts.plan is not None,
            report_id=decision.report_id,
            created_at=decision.created_at,
            lease=self._terms.lease,
            scanned_with=None if decision.facts.scanned is None else decision.facts.scanned.edition,
            seen=Seen(
                plan=look.plan,
                rules_version=context.rules_version,
                bucket_changed_at=None if bucket is None else bucket.updated_at,
                key_changed_at=principal.key_changed_at,
                remembered=arrival.remembered,
            ),
        )

    def _decision(
        self,
        facts: Facts,
        look: Look,
        actor: Principal,
        mode: Mode,
        *,
        file_id: str | None = None,
        rejection: Rejection | None = None,
    ) -> Decision:
        return Decision(
            report_id=new_id("rep"),
            tenant_id=actor.tenant_id,
            file_id=file_id,
            context_key=look.context.context_key,
            mode=mode,
            rules=look.rules,
            facts=facts,
            rejection=rejection,
            actor=actor,
            created_at=self._clock(),
        )

    def _lost(self, lost: ClaimLost, look: Look) -> Rejection:
        detail = "another upload took the last room"
        if lost.reason not in LIMIT_REASONS:
            return Rejection(lost.reason, detail)
        return Rejection(lost.reason, detail, seconds_to_next_month(look.present), self._terms.free_uploads_per_month)


def refusal_of(rejection: Rejection) -> FileRejected | LimitExceeded:
    """Answer the error that a caller sees for a rejection: its words and exactly one reason code."""
    kind = LimitExceeded if rejection.reason in LIMIT_REASONS else FileRejected
    return kind(WORDS[rejection.reason].message, [rejection.reason.value], retry_after=rejection.retry_after, limit=rejection.limit)


def _require_open(look: Look) -> None:
    if look.bucket is not None and not look.bucket.is_active:
        raise Outdated if look.remembered else BucketInactive


def _stored(decision: Decision, arrival: Arrival) -> Stored:
    return Stored(
        file_id=decision.file_id,
        report_id=decision.report_id,
        original_filename=arrival.name.original,
        content_type=decision.facts.content_type,
        size_bytes=arrival.sealed.size,
        context_key=arrival.context.context_key,
        metadata=arrival.metadata,
        rate=decision.facts.rate,
    )
