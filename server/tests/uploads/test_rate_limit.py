"""The rate limit of uploads: a logged verdict counts, a failure of the service does not."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.access import Principal, Scope
from sluice.contexts import RateLimit
from sluice.contexts.service import Draft
from sluice.db.database import DatabaseUnavailable
from sluice.db.migrate import upgrade
from sluice.errors import FileRejected, LimitExceeded
from sluice.kit.read_through_cache import Cached
from sluice.limiter.memory import MemoryLimiter
from sluice.settings import Settings
from sluice.uploads import repository
from sluice.uploads.upload import Uploads
from sluice.wiring.assembly import assembled
from tests.cli.zygotes import ForkedZygote
from tests.operator_action import operator_action


@pytest.fixture
async def uploads(tmp_path: Path) -> AsyncIterator[tuple[Uploads, str]]:
    """Uploads into a context that accepts one upload a minute."""
    settings = Settings.model_validate({"data_dir": tmp_path / "data", "scanner": "builtin", "sandbox_workers": 1})
    (tmp_path / "data").mkdir()
    async with assembled(settings, ForkedZygote().launched()) as made:
        await upgrade(made.engines.database)
        services = made.services
        tenant = await services.tenants.create("one", "unlimited")
        draft = Draft("papers", "Papers", scan_for_viruses=False, upload_rate_limit=RateLimit(1, 60))
        await services.contexts.create(operator_action(tenant.tenant_id), draft)
        yield replace(services.uploads, limiter=MemoryLimiter()), tenant.tenant_id


async def upload(uploads: Uploads, tenant_id: str, content: bytes) -> str:
    caller = Cached(Principal(tenant_id, "user", "user", frozenset({Scope.UPLOAD}), "jwt"), time.monotonic())

    async def read_caller(_since: float) -> Cached[Principal]:
        return caller

    one = uploads.begin(caller, read_caller, began=caller.read_at)
    try:
        await one.name_context("papers")
        await one.start_file("a.txt")
        await one.write(content)
        return (await one.finish(await one.seal())).file_id
    finally:
        one.close()


async def test_a_rejection_counts_against_the_rate_limit_when_it_is_logged(
    uploads: tuple[Uploads, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise DatabaseUnavailable

    with monkeypatch.context() as broken:
        broken.setattr(repository, "reject", fail)
        with pytest.raises(DatabaseUnavailable):
            await upload(*uploads, b"   ")
    with pytest.raises(FileRejected) as blank:
        await upload(*uploads, b"   ")
    assert blank.value.errors == ("blank_document",)
    with pytest.raises(LimitExceeded) as limited:
        await upload(*uploads, b"a line of text\n")
    assert tuple(limited.value.errors) == ("rate_limit_exceeded",)
