"""Operations on contexts: create, read, list, change. Judging uploads by them lives in `uploads`."""

import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import add_change, append
from sluice.buckets.endpoints import EndpointRefused, Resolve, addresses_of
from sluice.contexts import repository
from sluice.contexts.context import BYTES_PER_MB, Context, RateLimit, RetentionStart
from sluice.contexts.external_checks import (
    ExternalCheck,
    ExternalCheckDraft,
    checks_to_json,
    secret_binding,
)
from sluice.contexts.policies import ALL_ENFORCED, NO_POLICIES, CheckModes, Mode, Policies
from sluice.contexts.sanitising import Sanitise
from sluice.contexts.templates import DEFAULT_TEMPLATE
from sluice.db.database import Conflict, Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.errors import BucketInactive, ContextExists, Invalid, NotFound, or_not_found
from sluice.events import outbox
from sluice.events.catalogue import ContextUpdated
from sluice.kit.cipher import Sealer
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.outgoing.addresses import require_reachable
from sluice.outgoing.signature import new_secret
from sluice_inspect.ocr.languages import packages
from sluice_inspect.text_questions import Language

# Returns the bytes of the largest file that is scanned completely, None if there is no limit or none is known. Unless
# files of the given size are known to be scanned, it is measured; the second argument limits the wait, in seconds.
FindScanLimit = Callable[[int, float], Awaitable[int | None]]
# Returns the languages that OCR reads here.
FindOcrLanguages = Callable[[], Collection[Language]]
_SCAN_LIMIT_SECONDS = 10.0  # clamd takes some seconds to scan the largest file
OLD_SECRET_LIFE: Final = timedelta(hours=24)
_BATCH: Final = 500


async def _no_limit(_size: int, _seconds: float) -> None:
    """Return None: every file is scanned completely, or none is scanned."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A context to be created; the defaults are the interface's."""

    context_key: str
    display_name: str
    description: str | None = None
    allowed_extensions: tuple[str, ...] = ()
    max_file_size_mb: int = 10
    storage_path_template: str = DEFAULT_TEMPLATE
    reject_blank_files: bool = True
    reject_corrupt_files: bool = True
    scan_for_viruses: bool = True
    upload_rate_limit: RateLimit | None = None
    storage_quota_mb: int | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    storage_config_id: str | None = None
    check_modes: CheckModes = ALL_ENFORCED
    policies: Policies = NO_POLICIES
    retention_days: int | None = None
    retention_starts: RetentionStart = "stored"
    page_name: str | None = None
    page_sentence: str | None = None
    page_color: str | None = None
    page_logo: str | None = None
    external_checks: tuple[ExternalCheckDraft, ...] = ()
    sanitise: Sanitise | None = None


class Contexts:
    """The contexts of all tenants, one tenant at a time. None may accept files that are too large to be scanned.

    External checks need a `sealer` for their secrets; `allowed` are the hosts that the operator listed. `ocr_languages`
    finds the languages that contexts may have pictures read in.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = utc_now,
        find_scan_limit: FindScanLimit = _no_limit,
        *,
        sealer: Sealer | None = None,
        allowed: Collection[str] = (),
        resolve: Resolve = addresses_of,
        ocr_languages: FindOcrLanguages = tuple,
    ) -> None:
        self._database = database
        self._clock = clock
        self._find_scan_limit = find_scan_limit
        self._sealer = sealer
        self._allowed = allowed
        self._resolve = resolve
        self._ocr_languages = ocr_languages

    async def create(self, by: AuditAction, draft: Draft) -> Context:
        """Create an active context.

        Raise `ContextExists`, `Invalid` (unknown bucket, files too large to be scanned, no OCR) or `BucketInactive`.
        """
        self._require_ocr(NO_POLICIES, draft.policies)
        if draft.scan_for_viruses:
            await self._require_scannable(draft.max_file_size_mb)
        await self._require_reachable(draft.external_checks)
        context_id, fields = new_id("ctx"), {name: getattr(draft, name) for name in Draft.__slots__}
        fields["external_checks"] = self._with_secrets(by.tenant_id, context_id, (), draft.external_checks)
        context = Context(
            context_id=context_id,
            tenant_id=by.tenant_id,
            **fields,
            storage_used_bytes=0,
            status="active",
            rules_version=1,
            created_at=self._clock(),
            updated_at=None,
        )
        try:
            async with self._database.transaction(by.tenant_id) as connection:
                await _require_bucket(connection, by.tenant_id, context.storage_config_id)
                await repository.add(connection, context)
                event_id = await append(connection, by, context.context_key, context.created_at)
                await add_change(connection, by.tenant_id, event_id, context.context_key, {})
        except Conflict as fault:
            async with self._database.reading(by.tenant_id) as reading:
                taken = await repository.find(reading, by.tenant_id, context.context_key)
            if taken is None:  # the bucket was deleted since the check
                raise _unknown_bucket() from fault
            raise ContextExists(context.context_key) from fault
        return context

    async def get(self, tenant_id: str, context_key: str) -> Context:
        """Return one context; raise `NotFound`."""
        if not is_plain(context_key):
            raise NotFound
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find(connection, tenant_id, context_key))

    async def list_page(
        self, tenant_id: str, status: str | None, request: PageRequest, *, only: Sequence[str] = ()
    ) -> Page[Context]:
        """Return one page, newest first, of all contexts, those with `status`, or those with `only` these keys."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, status, request, only=only)

    async def change(self, by: AuditAction, context_key: str, changes: Mapping[str, Any]) -> Context:
        """Change the named fields and no others.

        Raise `NotFound`, `Invalid` (unknown bucket, files too large, no OCR) or `BucketInactive`.
        """
        tenant_id, now = by.tenant_id, self._clock()
        if not changes:
            return await self.get(tenant_id, context_key)
        await self._require_reachable(changes.get("external_checks", ()))
        scanned_mb = None
        if not changes.keys().isdisjoint(_SCAN_FIELDS):
            scanned_mb = _scanned_size(await self.get(tenant_id, context_key), changes)
            if scanned_mb is not None:
                await self._require_scannable(scanned_mb)  # not within the transaction: it may take seconds
        context = None
        try:
            async with self._database.transaction(tenant_id) as connection:
                before = await repository.find(connection, tenant_id, context_key, to_change=True)
                if before is None:
                    raise NotFound
                self._require_ocr(before.policies, changes.get("policies", before.policies))
                if "storage_config_id" in changes:
                    await _require_bucket(connection, tenant_id, changes["storage_config_id"])
                # Unless another request changed the size since it was checked.
                if changes.keys().isdisjoint(_SCAN_FIELDS) or _scanned_size(before, changes) == scanned_mb:
                    if "external_checks" in changes:
                        drafts = changes["external_checks"]
                        made = self._with_secrets(tenant_id, before.context_id, before.external_checks, drafts)
                        changes = {**changes, "external_checks": made}
                    context = await _save(connection, by, before, changes, now)
                    if "external_checks" in changes:  # with the secrets that are shown once
                        context = replace(context, external_checks=changes["external_checks"])
        except Conflict as fault:
            raise _unknown_bucket() from fault
        return await self.change(by, context_key, changes) if context is None else context

    async def rotate_check_secret(self, by: AuditAction, context_key: str, name: str) -> ExternalCheck:
        """Give an external check a new secret; the old one signs too for 24 hours. Raise `NotFound`."""
        tenant_id, now = by.tenant_id, self._clock()
        async with self._database.transaction(tenant_id) as connection:
            before = or_not_found(await repository.find(connection, tenant_id, context_key, to_change=True))
            old = or_not_found(next((check for check in before.external_checks if check.name == name), None))
            new = replace(
                self._with_secret(tenant_id, before.context_id, old),
                old_secret_sealed=old.secret_sealed,
                old_secret_until=now + OLD_SECRET_LIFE,
            )
            checks = tuple(new if check is old else check for check in before.external_checks)
            await _save(connection, by, before, {"external_checks": checks}, now)
        return new

    async def with_changes(self, tenant_id: str, context_key: str, changes: Mapping[str, Any]) -> Context:
        """Return the context as a change of its rules would make it; raise `NotFound` or `Invalid` as `change` does."""
        context = await self.get(tenant_id, context_key)
        if "external_checks" in changes:
            drafts = [_unsealed(draft) for draft in changes["external_checks"]]
            changes = {**changes, "external_checks": tuple(drafts)}
        self._require_ocr(context.policies, changes.get("policies", context.policies))
        context = replace(context, **changes)
        if context.scan_for_viruses and not changes.keys().isdisjoint(_SCAN_FIELDS):
            await self._require_scannable(context.max_file_size_mb)
        return context

    async def accepted_bytes(self, context: Context) -> int:
        """Return the bytes of the largest file that can be accepted: no more than is scanned, where that is required.

        What is not known yet of the scanner is measured, which is not waited for.
        """
        if not context.scan_for_viruses or context.check_modes.malware is not Mode.ENFORCE:
            return context.max_bytes
        limit = await self._find_scan_limit(context.max_bytes, 0)
        return context.max_bytes if limit is None else min(context.max_bytes, limit)

    async def beyond_scan_limit(self, most: int) -> Sequence[Context]:
        """Return active contexts of all tenants that take larger files than are scanned, at most `most`, the largest
        first.

        None are returned while the limit is not known: it is then measured, which is not waited for.
        """
        async with self._database.reading(ALL_TENANTS) as connection:
            found = await repository.largest_scanned(connection, most)
        if not found:
            return ()
        limit = await self._find_scan_limit(found[0].max_file_size_mb * BYTES_PER_MB, 0)
        return () if limit is None else [each for each in found if each.max_file_size_mb * BYTES_PER_MB > limit]

    def _require_ocr(self, before: Policies, after: Policies) -> None:
        """Raise `Invalid` for languages that OCR is now asked for, and that it does not read here."""
        asked, had = [() if each.text is None else each.text.ocr for each in (after, before)]
        installed = self._ocr_languages() if asked else ()
        missing = [each for each in asked if each not in installed and each not in had]
        if missing:
            raise Invalid(
                f"policies.text.ocr: this service has no OCR for {', '.join(missing)}; its operator can install "
                f"{' '.join(('tesseract-ocr', *packages(missing)))}"
            )

    async def _require_reachable(self, drafts: Iterable[ExternalCheckDraft]) -> None:
        """Raise `Invalid` for a URL that is never dialled."""
        for draft in drafts:
            try:
                await require_reachable(draft.url, self._allowed, self._resolve)
            except EndpointRefused as fault:
                raise Invalid(f"external_checks: the URL of {draft.name}: {fault}") from fault

    def _with_secrets(
        self, tenant_id: str, context_id: str, before: Iterable[ExternalCheck], drafts: Iterable[ExternalCheckDraft]
    ) -> tuple[ExternalCheck, ...]:
        """Return the checks with their secrets: one that is there already by its name keeps its own."""
        known = {check.name: check for check in before}
        return tuple(
            replace(known[draft.name], **draft.model_dump())
            if draft.name in known
            else self._with_secret(tenant_id, context_id, _unsealed(draft))
            for draft in drafts
        )

    def _with_secret(self, tenant_id: str, context_id: str, check: ExternalCheck) -> ExternalCheck:
        if self._sealer is None:
            raise RuntimeError("external checks need a keyring")
        secret = new_secret()
        sealed = self._sealer.seal(secret, bound_to=secret_binding(tenant_id, context_id, check.name))
        return replace(check, secret_sealed=sealed, secret=secret)

    async def _require_scannable(self, most_mb: int) -> None:
        limit = await self._find_scan_limit(most_mb * BYTES_PER_MB, _SCAN_LIMIT_SECONDS)
        if limit is not None and most_mb * BYTES_PER_MB > limit:
            raise Invalid(
                f"max_file_size_mb: expected at most {limit // BYTES_PER_MB} while scan_for_viruses is on: "
                "the malware scanner scans no larger file"
            )


class ExternalCheckSecrets:
    """The sealed secrets of all external checks, for the rotation of the keys that seal them.

    A call that was interrupted can be repeated.
    """

    def __init__(self, database: Database, keyring: Sealer) -> None:
        self._database = database
        self._keyring = keyring

    async def count_old(self) -> int:
        """Return how many checks have a secret that is sealed with a key that is not the current one."""
        return sum([self._old_in(context) async for context in self._with_checks()])

    async def seal_again(self) -> int:
        """Seal those again, context by context, and return how many."""
        done = 0
        async for found in self._with_checks():
            if not self._old_in(found):
                continue
            async with self._database.transaction(found.tenant_id) as connection:
                context = await repository.find(connection, found.tenant_id, found.context_key, to_change=True)
                if context is not None:
                    checks = tuple(self._sealed_again(context, check) for check in context.external_checks)
                    await repository.change(
                        connection,
                        context.tenant_id,
                        context.context_key,
                        _columns_of({"external_checks": checks}),
                    )
                    done += self._old_in(context)
        return done

    def _old_in(self, context: Context) -> int:
        sealed = [(check.secret_sealed, check.old_secret_sealed) for check in context.external_checks]
        return sum(not all(self._keyring.is_current(one) for one in each if one is not None) for each in sealed)

    def _sealed_again(self, context: Context, check: ExternalCheck) -> ExternalCheck:
        binding = secret_binding(context.tenant_id, context.context_id, check.name)
        old = check.old_secret_sealed
        return replace(
            check,
            secret_sealed=self._keyring.seal(
                self._keyring.open(check.secret_sealed, bound_to=binding), bound_to=binding
            ),
            old_secret_sealed=old and self._keyring.seal(self._keyring.open(old, bound_to=binding), bound_to=binding),
        )

    async def _with_checks(self) -> AsyncIterator[Context]:
        after = ""
        while True:
            async with self._database.reading(ALL_TENANTS) as connection:
                found = await repository.list_with_checks(connection, after, _BATCH)
            for context in found:
                yield context
            if len(found) < _BATCH:
                return
            after = found[-1].context_id


def _unsealed(draft: ExternalCheckDraft) -> ExternalCheck:
    return ExternalCheck(**draft.model_dump(), secret_sealed="")


async def _save(
    connection: Connection, by: AuditAction, before: Context, changes: Mapping[str, Any], now: datetime
) -> Context:
    """Change the context, with its entry in the audit log, the values before and the event; raise `NotFound`."""
    values = _columns_of(changes) | {"updated_at": now}
    context = or_not_found(await repository.change(connection, by.tenant_id, before.context_key, values))
    event_id = await append(connection, by, before.context_key, now)
    await add_change(connection, by.tenant_id, event_id, before.context_key, changed_fields(before, context))
    updated = ContextUpdated(
        context_key=before.context_key, changed=tuple(sorted(changes)), rules_version=context.rules_version
    )
    await outbox.add(connection, by.tenant_id, updated, now)
    return context


def _scanned_size(before: Context, changes: Mapping[str, Any]) -> int | None:
    """Return the size in MB of the largest file that a changed context takes, None if it does not scan."""
    is_scanned = changes.get("scan_for_viruses", before.scan_for_viruses)
    return int(changes.get("max_file_size_mb", before.max_file_size_mb)) if is_scanned else None


_SCAN_FIELDS = frozenset({"max_file_size_mb", "scan_for_viruses"})
_CHANGEABLE = (
    *(
        each.name
        for each in fields(Draft)
        if each.name not in {"context_key", "check_modes", "policies", "external_checks"}
    ),
    "status",
)
_LONGEST_KEPT = 1000


def changed_fields(before: Context, after: Context) -> dict[str, tuple[Any, Any]]:
    """Return the old and the new value of each field that a change of rules changed, each policy and check by itself.

    A long value is cut: the audit log keeps them for months.
    """
    old, new = _as_json(before), _as_json(after)
    return {
        name: (_cut(old.get(name)), _cut(new.get(name)))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    }


def _as_json(context: Context) -> dict[str, Any]:
    rate = context.upload_rate_limit
    values: dict[str, Any] = {name: getattr(context, name) for name in _CHANGEABLE}
    values["allowed_extensions"] = list(context.allowed_extensions)
    values["upload_rate_limit"] = None if rate is None else asdict(rate)
    values["metadata"] = dict(context.metadata)
    values["sanitise"] = None if context.sanitise is None else context.sanitise.to_json()
    if context.page_logo is not None:
        values["page_logo"] = f"PNG {zlib.crc32(context.page_logo.encode()):08x}"  # not the picture itself
    values |= {f"check_modes.{name}": mode for name, mode in context.check_modes.model_dump(mode="json").items()}
    values |= {f"external_checks.{check.name}": check.public for check in context.external_checks}
    return values | {f"policies.{name}": policy for name, policy in context.policies.to_json().items()}


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= _LONGEST_KEPT else f"{text[:_LONGEST_KEPT]}…"


def _columns_of(changes: Mapping[str, Any]) -> dict[str, Any]:
    values = dict(changes)
    if "upload_rate_limit" in values:
        rate: RateLimit | None = values.pop("upload_rate_limit")
        values["rate_max_uploads"] = None if rate is None else rate.max_uploads
        values["rate_window_seconds"] = None if rate is None else rate.window_seconds
    if "allowed_extensions" in values:
        values["allowed_extensions"] = list(values["allowed_extensions"])
    for name in values.keys() & {"check_modes", "policies"}:
        values[name] = values[name].to_json()
    if "external_checks" in values:
        values["external_checks"] = checks_to_json(values["external_checks"])
    if values.get("sanitise") is not None:
        values["sanitise"] = values["sanitise"].to_json()
    return values


async def _require_bucket(connection: Connection, tenant_id: str, config_id: str | None) -> None:
    if config_id is None:
        return
    is_active = await repository.bucket_is_active(connection, tenant_id, config_id)
    if is_active is None:
        raise _unknown_bucket()
    if not is_active:
        raise BucketInactive


def _unknown_bucket() -> Invalid:
    return Invalid("storage_config_id: names no bucket of this tenant")
