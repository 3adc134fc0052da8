"""A context that scans for malware accepts no larger files than the scanner scans."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.contexts.policies import CheckModes, Mode
from sluice.contexts.service import Contexts, Draft
from sluice.db.database import Database
from sluice.errors import Invalid
from sluice.tenants.service import Tenants
from tests.db.migrated import Migrated
from tests.operator_action import operator_action

MIB = 2**20


class ScanLimit:
    """The size up to which files are scanned, which a test may change."""

    def __init__(self) -> None:
        self.bytes: int | None = 25 * MIB
        self.known = 0
        """Files of this size are known to be scanned: for them, the limit stays unknown."""
        self.asked: list[int] = []
        self.waited = 0.0
        self.meanwhile: list[Awaitable[object]] = []


@pytest.fixture
async def database(migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    async with aclosing(Database(migrated.sqlite(tmp_path))) as opened:
        yield opened


@pytest.fixture
async def tenant_id(database: Database) -> str:
    return (await Tenants(database).create("Weir & Sons", "free")).tenant_id


@pytest.fixture
def limit() -> ScanLimit:
    return ScanLimit()


@pytest.fixture
def contexts(database: Database, limit: ScanLimit) -> Contexts:
    async def find(size: int, seconds: float) -> int | None:
        limit.asked.append(size // MIB)
        limit.waited = seconds
        if limit.meanwhile:
            await limit.meanwhile.pop()
        return limit.bytes if limit.bytes is None or size > limit.known else None

    return Contexts(database, find_scan_limit=find)


def draft(megabytes: int, *, scan: bool = True, key: str = "papers") -> Draft:
    return Draft(key, "Papers", max_file_size_mb=megabytes, scan_for_viruses=scan)


async def test_a_context_above_the_scan_limit_is_refused_unless_it_has_no_scans_or_the_limit_is_unknown(
    contexts: Contexts, tenant_id: str, limit: ScanLimit
) -> None:
    by = operator_action(tenant_id)
    assert (await contexts.create(by, draft(25, key="a"))).max_file_size_mb == 25
    with pytest.raises(Invalid) as refused:
        await contexts.create(by, draft(26, key="b"))
    assert [str(problem) for problem in refused.value.errors] == [
        "max_file_size_mb: expected at most 25 while scan_for_viruses is on: the malware scanner scans no larger file"
    ]
    assert (await contexts.create(by, draft(500, scan=False, key="b"))).max_file_size_mb == 500
    limit.bytes = None
    assert (await contexts.create(by, draft(500, key="c"))).max_file_size_mb == 500
    assert limit.asked == [25, 26, 500], "not for the one that has no scans"


async def test_a_change_above_the_scan_limit_is_refused(contexts: Contexts, tenant_id: str) -> None:
    by = operator_action(tenant_id)
    await contexts.create(by, draft(10))
    for changes in ({"max_file_size_mb": 26}, {"max_file_size_mb": 26, "scan_for_viruses": True}):
        with pytest.raises(Invalid):
            await contexts.change(by, "papers", changes)
        assert (await contexts.get(tenant_id, "papers")).max_file_size_mb == 10
    changed = await contexts.change(by, "papers", {"scan_for_viruses": False, "max_file_size_mb": 500})
    assert changed.max_file_size_mb == 500
    with pytest.raises(Invalid):
        await contexts.change(by, "papers", {"scan_for_viruses": True})
    await contexts.change(by, "papers", {"scan_for_viruses": True, "max_file_size_mb": 25})


async def test_a_change_is_checked_again_if_another_one_came_between(
    contexts: Contexts, tenant_id: str, limit: ScanLimit
) -> None:
    by, limit.known = operator_action(tenant_id), 10 * MIB
    await contexts.create(by, draft(10, scan=False))
    limit.meanwhile.append(contexts.change(by, "papers", {"max_file_size_mb": 500}))
    with pytest.raises(Invalid):
        await contexts.change(by, "papers", {"scan_for_viruses": True})
    assert limit.asked == [10, 500]
    assert not (await contexts.get(tenant_id, "papers")).scan_for_viruses


async def test_other_fields_above_the_limit_can_change(contexts: Contexts, tenant_id: str, limit: ScanLimit) -> None:
    await contexts.create(operator_action(tenant_id), draft(25))
    limit.bytes = 10 * MIB
    changed = await contexts.change(operator_action(tenant_id), "papers", {"display_name": "Letters"})
    assert changed.display_name == "Letters"
    assert limit.asked == [25]


async def test_no_larger_file_is_promised_than_is_scanned_where_that_is_required(
    contexts: Contexts, tenant_id: str, limit: ScanLimit
) -> None:
    by, limit.bytes = operator_action(tenant_id), None
    context = await contexts.create(by, draft(100))
    assert await contexts.accepted_bytes(context) == 100 * MIB
    limit.bytes = 25 * MIB
    assert await contexts.accepted_bytes(context) == 25 * MIB
    assert limit.waited == 0, "a page does not wait"
    reporting = replace(context, check_modes=CheckModes(malware=Mode.REPORT))
    for unlimited in (reporting, replace(context, scan_for_viruses=False)):
        assert await contexts.accepted_bytes(unlimited) == 100 * MIB


async def test_contexts_above_it_are_listed_largest_first(contexts: Contexts, tenant_id: str, limit: ScanLimit) -> None:
    limit.bytes = None
    for key, megabytes in (("small", 10), ("large", 100), ("largest", 500)):
        await contexts.create(operator_action(tenant_id), draft(megabytes, key=key))
    await contexts.create(operator_action(tenant_id), draft(500, scan=False, key="unscanned"))
    await contexts.create(operator_action(tenant_id), draft(500, key="inactive"))
    await contexts.change(operator_action(tenant_id), "inactive", {"status": "inactive"})
    assert await contexts.beyond_scan_limit(5) == ()
    limit.bytes = 25 * MIB
    assert [context.context_key for context in await contexts.beyond_scan_limit(5)] == ["largest", "large"]
    assert [context.context_key for context in await contexts.beyond_scan_limit(1)] == ["largest"]
    assert (limit.asked[-1], limit.waited) == (500, 0), "a health page does not wait"
