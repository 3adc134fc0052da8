"""`UploadSnapshot`: which context, rules and caller apply when caches are older than the upload. Without a database."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sluice.access import Principal, Scope
from sluice.contexts import Context
from sluice.errors import ContextInactive, NotFound, ScopeMissing, Unauthenticated
from sluice.kit.read_through_cache import Cached
from sluice.uploads import snapshot
from sluice.uploads.snapshot import SnapshotCache, StaleSnapshot, UploadSnapshot
from sluice.uploads.values import ContextSnapshot, Rules, Usage
from tests.rows import each_row

NOW = datetime(2026, 1, 31, tzinfo=UTC)
CALLER = Principal("ten_1", "key_1", "one", frozenset({Scope.UPLOAD}), "api_key", key_id="key_1")
CONTEXT = Context(
    context_id="ctx_1",
    context_key="papers",
    tenant_id="ten_1",
    display_name="Papers",
    description=None,
    allowed_extensions=("txt",),
    max_file_size_mb=10,
    storage_path_template="{file_id}",
    reject_blank_files=True,
    reject_corrupt_files=True,
    scan_for_viruses=False,
    upload_rate_limit=None,
    storage_quota_mb=None,
    storage_used_bytes=0,
    status="active",
    metadata={},
    storage_config_id=None,
    rules_version=1,
    created_at=NOW,
    updated_at=None,
)


class Rows:
    """The rows of one context and one key, which a test changes during an upload."""

    def __init__(self) -> None:
        self.context: Context | None = CONTEXT
        self.caller: Principal | Exception = CALLER
        self.used = 0
        self.reads = 0
        self.caller_reads = 0
        self.cache = SnapshotCache(self.load, seconds=60.0)

    async def load(self, tenant_id: str, context_key: str) -> ContextSnapshot | None:
        assert (tenant_id, context_key) == ("ten_1", "papers")
        self.reads += 1
        if self.context is None:
            return None
        return ContextSnapshot(self.context, Rules.of(self.context), None, "unlimited", Usage(self.used, 0, NOW))

    async def read_caller(self, _since: float) -> Cached[Principal]:
        self.caller_reads += 1
        if isinstance(self.caller, Exception):
            raise self.caller
        return Cached(self.caller, time.monotonic())

    def change_rules(self) -> None:
        assert self.context is not None
        self.context = replace(self.context, allowed_extensions=("pdf",), rules_version=self.context.rules_version + 1)

    def begin(self, *, caller_age: float = 0.0) -> UploadSnapshot:
        began = time.monotonic()
        return UploadSnapshot(self.cache, Cached(CALLER, began - caller_age), self.read_caller, began=began)

    async def begin_from_cache(self) -> UploadSnapshot:
        """Begin an upload whose caller and context were both read before it began."""
        await self.cache.get("ten_1", "papers", since=time.monotonic())
        upload = self.begin(caller_age=1.0)
        await upload.name_context("papers")
        return upload


@pytest.fixture
def rows() -> Rows:
    return Rows()


async def named(rows: Rows) -> UploadSnapshot:
    """Begin an upload into the context."""
    upload = rows.begin()
    await upload.name_context("papers")
    return upload


async def test_a_known_context_is_read_once_for_several_uploads_and_an_unknown_one_not_cached(rows: Rows) -> None:
    rows.context = None
    upload = rows.begin()
    with pytest.raises(NotFound):
        await upload.name_context("papers")
    rows.context = CONTEXT
    await upload.name_context("papers")
    upload.close()
    reads = rows.reads
    for _ in range(2):
        (await named(rows)).close()
    assert rows.reads == reads


async def test_an_inactive_context_is_refused_and_a_reactivated_one_accepted_despite_the_cache(rows: Rows) -> None:
    rows.context = replace(CONTEXT, status="inactive")
    with pytest.raises(ContextInactive):
        await named(rows)
    await rows.cache.get("ten_1", "papers", since=time.monotonic())
    rows.context = CONTEXT
    (await named(rows)).close()


async def test_an_unchanged_snapshot_is_not_stale_and_its_usage_always_read_from_the_database(rows: Rows) -> None:
    upload = await rows.begin_from_cache()
    rows.used = 7
    assert not await upload.confirm()
    await upload.require_current()
    upload = await rows.begin_from_cache()
    rows.used = 8
    assert upload.named.usage.stored_bytes == 7
    assert (await upload.read_usage()).stored_bytes == 8
    upload.close()


async def test_rules_that_changed_before_the_upload_are_stale(rows: Rows) -> None:
    await rows.cache.get("ten_1", "papers", since=time.monotonic())
    rows.change_rules()
    upload = await named(rows)
    assert upload.named.rules.allowed_extensions == ("txt",)
    with pytest.raises(StaleSnapshot):
        await upload.require_current()
    assert upload.named.rules.allowed_extensions == ("pdf",)
    await upload.require_current()


async def _confirmed_in_background(rows: Rows) -> UploadSnapshot:
    before = rows.reads
    upload = await rows.begin_from_cache()
    for _ in range(50):  # turns of the event loop; the reads of these tests never wait
        await asyncio.sleep(0)
    assert rows.reads == before + 2
    return upload


async def test_what_changes_during_a_slow_upload_does_not_apply(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_CONFIRM_AFTER_SECONDS", 0)
    upload = await _confirmed_in_background(rows)
    rows.change_rules()
    rows.caller = ScopeMissing("upload")
    await rows.cache.get("ten_1", "papers", since=time.monotonic())  # another upload has read the new rules
    assert not await upload.confirm()
    assert upload.named.rules.allowed_extensions == ("txt",)
    await upload.confirm_caller()


async def test_what_is_received_in_time_is_read_again_later_than_what_still_comes_in(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "_CONFIRM_AFTER_SECONDS", 0)
    monkeypatch.setattr(snapshot, "_CONFIRM_RECEIVED_AFTER_SECONDS", 3600)
    upload = await rows.begin_from_cache()
    upload.is_received = True
    reads = rows.reads
    for _ in range(50):
        await asyncio.sleep(0)
    assert rows.reads == reads
    monkeypatch.setattr(snapshot, "_CONFIRM_RECEIVED_AFTER_SECONDS", 0)
    await _confirmed_in_background(rows)
    upload.close()


@each_row("refusal", [Unauthenticated(), ScopeMissing("upload")])
async def test_a_caller_revoked_before_the_upload_is_read_once_and_refused(refusal: Exception) -> None:
    rows = Rows()
    upload = await rows.begin_from_cache()
    rows.caller = refusal
    for confirm in (upload.confirm, upload.confirm_caller, upload.confirm_caller):
        with pytest.raises(type(refusal)):
            await confirm()
    assert rows.caller_reads == 1
    upload.close()


async def test_only_a_stale_attempt_is_repeated_with_the_current_rules(rows: Rows) -> None:
    async def attempt(_caller: Principal, context: ContextSnapshot) -> str:
        calls.append(context.rules.allowed_extensions)
        await upload.require_current()
        return "stored"

    calls: list[tuple[str, ...]] = []
    await rows.cache.get("ten_1", "papers", since=time.monotonic())
    rows.change_rules()
    upload = await named(rows)
    assert await upload.retry_if_stale(attempt) == "stored"
    assert calls == [("txt",), ("pdf",)]
    upload = await rows.begin_from_cache()
    await upload.retry_if_stale(attempt)
    assert calls == [("txt",), ("pdf",), ("pdf",)]
