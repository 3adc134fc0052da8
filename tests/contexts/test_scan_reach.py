"""A context that asks for scans takes no larger files than are scanned."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sluice.contexts.service import Contexts, Draft
from sluice.db.database import Database
from sluice.errors import Invalid
from sluice.tenants.service import Tenants
from tests.db.migrated import Migrated
from tests.deeds import deed_of

MIB = 2**20


class Reach:
    """How much is scanned at this moment."""

    def __init__(self) -> None:
        self.bytes: int | None = 25 * MIB


@pytest.fixture
async def database(migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(migrated.sqlite(tmp_path))
    yield opened
    await opened.aclose()


@pytest.fixture
async def tenant_id(database: Database) -> str:
    return (await Tenants(database).create("Weir & Sons", "free")).tenant_id


@pytest.fixture
def reach() -> Reach:
    return Reach()


@pytest.fixture
def contexts(database: Database, reach: Reach) -> Contexts:
    return Contexts(database, scan_reach=lambda: reach.bytes)


def draft(megabytes: int, *, scanned: bool = True, key: str = "papers") -> Draft:
    return Draft(key, "Papers", max_file_size_mb=megabytes, scan_for_viruses=scanned)


async def test_a_context_up_to_the_reach_is_created(contexts: Contexts, tenant_id: str) -> None:
    assert (await contexts.create(deed_of(tenant_id), draft(25))).max_file_size_mb == 25


async def test_a_larger_one_is_refused_with_what_is_scanned(contexts: Contexts, tenant_id: str) -> None:
    with pytest.raises(Invalid) as refused:
        await contexts.create(deed_of(tenant_id), draft(26))
    assert [str(problem) for problem in refused.value.errors] == [
        "max_file_size_mb: expected at most 25 while scan_for_viruses is on: the malware scanner looks at no larger file"
    ]


async def test_a_larger_one_without_scans_is_created(contexts: Contexts, tenant_id: str) -> None:
    assert (await contexts.create(deed_of(tenant_id), draft(500, scanned=False))).max_file_size_mb == 500


async def test_any_size_is_created_where_no_limit_is_known(contexts: Contexts, tenant_id: str, reach: Reach) -> None:
    reach.bytes = None
    assert (await contexts.create(deed_of(tenant_id), draft(500))).max_file_size_mb == 500


@pytest.mark.parametrize("changes", [{"max_file_size_mb": 26}, {"max_file_size_mb": 26, "scan_for_viruses": True}])
async def test_a_change_beyond_the_reach_is_refused(contexts: Contexts, tenant_id: str, changes: dict[str, object]) -> None:
    await contexts.create(deed_of(tenant_id), draft(10))
    with pytest.raises(Invalid):
        await contexts.change(deed_of(tenant_id), "papers", changes)
    assert (await contexts.get(tenant_id, "papers")).max_file_size_mb == 10


async def test_scans_cannot_be_switched_on_for_files_that_are_too_large(contexts: Contexts, tenant_id: str) -> None:
    await contexts.create(deed_of(tenant_id), draft(500, scanned=False))
    with pytest.raises(Invalid):
        await contexts.change(deed_of(tenant_id), "papers", {"scan_for_viruses": True})
    await contexts.change(deed_of(tenant_id), "papers", {"scan_for_viruses": True, "max_file_size_mb": 25})


async def test_scans_are_switched_off_together_with_a_larger_size(contexts: Contexts, tenant_id: str) -> None:
    await contexts.create(deed_of(tenant_id), draft(10))
    changed = await contexts.change(deed_of(tenant_id), "papers", {"scan_for_viruses": False, "max_file_size_mb": 500})
    assert changed.max_file_size_mb == 500


async def test_other_fields_of_a_context_that_became_too_large_can_be_changed(
    contexts: Contexts, tenant_id: str, reach: Reach
) -> None:
    await contexts.create(deed_of(tenant_id), draft(25))
    reach.bytes = 10 * MIB
    assert (await contexts.change(deed_of(tenant_id), "papers", {"display_name": "Letters"})).display_name == "Letters"


async def test_contexts_beyond_the_reach_are_named_the_largest_first(contexts: Contexts, tenant_id: str, reach: Reach) -> None:
    reach.bytes = None
    for key, megabytes in (("small", 10), ("large", 100), ("largest", 500)):
        await contexts.create(deed_of(tenant_id), draft(megabytes, key=key))
    await contexts.create(deed_of(tenant_id), draft(500, scanned=False, key="unscanned"))
    await contexts.create(deed_of(tenant_id), draft(500, key="inactive"))
    await contexts.change(deed_of(tenant_id), "inactive", {"status": "inactive"})
    assert await contexts.beyond_reach(5) == ()
    reach.bytes = 25 * MIB
    assert [context.context_key for context in await contexts.beyond_reach(5)] == ["largest", "large"]
    assert [context.context_key for context in await contexts.beyond_reach(1)] == ["largest"]
