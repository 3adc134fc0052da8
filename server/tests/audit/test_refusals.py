"""Refused actions in the audit log: a limit for each caller, and no limit that callers share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sluice.access import Principal
from sluice.audit import AuditAction
from sluice.audit.service import AuditLog
from sluice.db.database import Database
from sluice.db.migrate import upgrade
from sluice.kit.paging import PageRequest
from sluice.tenants.service import Tenants

LONG_ISSUER = "https://issuer.example/realms/" + "a" * 80


@pytest.fixture
async def audit(tmp_path: Path) -> AsyncIterator[AuditLog]:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    await upgrade(database)
    for tenant_id in ("ten_1", "ten_2"):
        await Tenants(database).create("one", "unlimited", tenant_id=tenant_id)
    yield AuditLog(database)
    await database.aclose()


def action(actor_id: str, tenant_id: str = "ten_1") -> AuditAction:
    return AuditAction(Principal(tenant_id, actor_id, "name", frozenset(), "jwt"), "api_key.created")


async def entries(audit: AuditLog, tenant_id: str, actor_id: str) -> int:
    return (await audit.list_page(tenant_id, actor_id, None, PageRequest(1, 100))).total


async def test_refusals_of_one_caller_leave_a_limited_number_of_entries(audit: AuditLog) -> None:
    for _ in range(70):
        await audit.refused(action("user_1"), None, "scope_missing")
    assert await entries(audit, "ten_1", "user_1") == 60


async def test_callers_with_the_same_long_issuer_do_not_share_a_limit(audit: AuditLog) -> None:
    for _ in range(60):
        await audit.refused(action(f"{LONG_ISSUER}|one"), None, "scope_missing")
    await audit.refused(action(f"{LONG_ISSUER}|two"), None, "scope_missing")
    assert await entries(audit, "ten_1", f"{LONG_ISSUER}|two") == 1


async def test_the_same_user_of_two_tenants_does_not_share_a_limit(audit: AuditLog) -> None:
    for _ in range(60):
        await audit.refused(action("user_1", "ten_1"), None, "scope_missing")
    await audit.refused(action("user_1", "ten_2"), None, "scope_missing")
    assert await entries(audit, "ten_2", "user_1") == 1
