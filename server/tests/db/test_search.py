"""Search among files on both databases: read through indexes, complete where a filter is rare, honest where none is."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.files import FileFilter, search
from sluice.files.record import FileOrder
from sluice.files.search import FoundFiles
from sluice.kit.ids import first_id
from sluice.kit.paging import PageRequest
from tests.db.rows import add_file, add_tenant, change

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOURS = [BEGIN + timedelta(hours=number) for number in range(12)]
IDS = [first_id("file", at) for at in HOURS]


@pytest.fixture
async def tables(tables: Database) -> Database:
    """Twelve files, one an hour, of growing size; each fourth is of another type, context and uploader, one in quarantine."""
    await add_tenant(tables, "ten_1", "a", "b")
    for number, file_id in enumerate(IDS):
        rare = number % 4 == 3
        await add_file(tables, "ten_1", file_id, context="b" if rare else "a", by="v" if rare else "u")
        # Read and written as an upload does: the metadata is searched from the moment at which a file is stored.
        await change(tables, file_id, state="pending")
        found = {"content_type": "image/png" if rare else "text/plain", "size_bytes": 100 + number}
        named = {"original_filename": f"Report {number}.txt", "sha256": f"{number % 6:064}", "state": "stored"}
        metadata = {"claim": f"C-{number % 3}", "n": number, "rare": rare, "deep": {"a": 1}}
        held = BEGIN if number == 2 else None
        await change(tables, file_id, **found, **named, metadata=metadata, quarantined_at=held)
    return tables


async def _search(
    database: Database, wanted: FileFilter, order: FileOrder = "-created_at", page: int = 1, size: int = 20
) -> FoundFiles:
    async with database.reading(ALL_TENANTS) as connection:
        return await search.search(connection, "ten_1", wanted, order, PageRequest(page, size))


async def _numbers(database: Database, wanted: FileFilter, order: FileOrder = "-created_at") -> list[int]:
    return [IDS.index(file.file_id) for file in (await _search(database, wanted, order)).page.items]


FILTERS: list[tuple[FileFilter, str, list[int]]] = [
    (FileFilter(content_type="image/png"), "ix_files_by_type", [11, 7, 3]),
    (FileFilter(sha256=f"{2:064}"), "ix_files_by_sha256", [8, 2]),
    (FileFilter(min_size=109), "ix_files_by_size", [11, 10, 9]),
    (FileFilter(context_key="b"), "ix_files_by_", [11, 7, 3]),
    (FileFilter(uploaded_by="v"), "ix_files_by_uploader", [11, 7, 3]),
    (FileFilter(context_key="b", uploaded_by="v"), "ix_files_by_both", [11, 7, 3]),
    (FileFilter(metadata=(("claim", "C-1"), ("n", "4"))), "ix_file_metadata_search", [4]),
    (FileFilter(metadata=(("rare", "true"),)), "ix_file_metadata_search", [11, 7, 3]),
    (FileFilter(metadata=(("deep", "{}"),)), "ix_file_metadata_search", []),
    (FileFilter(created_after=HOURS[3], created_before=HOURS[6]), "ix_files_listing", [5, 4, 3]),
    (FileFilter(content_type="image/png", created_before=HOURS[8]), "ix_files_by_type", [7, 3]),
    (FileFilter(filename="REPORT 1"), "ix_files_listing", [11, 10, 1]),
    (FileFilter(status="quarantined"), "ix_files_review", [2]),
]


@pytest.mark.parametrize("searched", [10_000, 2], ids=["rare", "frequent"])
async def test_each_filter_is_read_through_its_index_and_never_from_all_rows(
    tables: Database, monkeypatch: pytest.MonkeyPatch, searched: int
) -> None:
    monkeypatch.setattr(search, "MOST_SEARCHED", searched)
    # Files of another tenant between them: of a few rows, each index would cost the same.
    await add_tenant(tables, "ten_2", "a", "b")
    for file_id in IDS:
        for number in range(6):
            of_both = {"context": "b", "by": "u"} if number % 2 else {"context": "a", "by": "v"}
            await add_file(tables, "ten_2", f"{file_id}{number}", **of_both)
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(text("ANALYZE"))
    for wanted, index, found in FILTERS:
        statements: list[tuple[str, Any]] = []

        def note(_connection: object, _cursor: object, statement: str, parameters: object, *_more: object) -> None:
            if "SELECT" in statement and "files" in statement:
                statements.append((statement, parameters))  # noqa: B023  (called before the next filter)

        event.listen(tables.engine.sync_engine, "before_cursor_execute", note)
        try:
            numbers = await _numbers(tables, wanted)
        finally:
            event.remove(tables.engine.sync_engine, "before_cursor_execute", note)
        assert numbers == found if searched > len(IDS) else set(numbers) <= set(found), wanted
        plans = await _plans(tables, statements)
        assert any(f" {index}" in plan for plan in plans), (index, plans)
        for plan in plans:
            # Files of one page are sorted, or of the few that were found; the index is read in its order.
            assert "SCAN files" not in plan.replace("SCAN files USING", ""), plan
            assert "Seq Scan on files" not in plan, plan
            assert plan.count("USE TEMP B-TREE FOR ORDER BY") + plan.count("Sort Key") <= 1, plan


async def _plans(database: Database, statements: list[tuple[str, Any]]) -> list[str]:
    async with database.reading(ALL_TENANTS) as connection:
        if not database.is_sqlite:
            for kind in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
                await connection.execute(text(f"SET LOCAL enable_{kind} = off"))
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        return [
            "\n".join(map(str, (await connection.exec_driver_sql(f"{explain} {statement}", parameters)).all()))
            for statement, parameters in statements
        ]


async def test_files_are_sorted_by_size(tables: Database) -> None:
    wanted = FileFilter(min_size=108)
    assert await _numbers(tables, wanted, "-size_bytes") == [11, 10, 9, 8]
    assert await _numbers(tables, wanted, "size_bytes") == [8, 9, 10, 11]
    assert (await _numbers(tables, FileFilter(), "created_at"))[:3] == [0, 1, 2]


async def test_a_search_that_compares_not_all_files_says_so_and_finds_whole_names_all_the_same(
    tables: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_SEARCHED", 4)
    assert await _numbers(tables, FileFilter(filename="Report 1")) == [11, 10]
    assert await _numbers(tables, FileFilter(filename="Report 1.txt")) == [1]
    assert not (await _search(tables, FileFilter(filename="Report 1"))).is_complete
    # One of the filters has few enough files, so all others are compared with each of them.
    both = FileFilter(filename="1", content_type="image/png")
    assert await _numbers(tables, both) == [11]
    assert (await _search(tables, both)).is_complete
    # In the order asked for, the first files are compared.
    assert await _numbers(tables, FileFilter(context_key="a"), "-size_bytes") == [10, 9, 8]


async def test_pages_of_a_search_list_every_file_once(tables: Database) -> None:
    wanted = FileFilter(metadata=(("claim", "C-1"),))
    pages = [await _search(tables, wanted, page=number, size=3) for number in (1, 2)]
    assert [one.page.total for one in pages] == [4, 4]
    assert [IDS.index(file.file_id) for one in pages for file in one.page.items] == [10, 7, 4, 1]


async def test_metadata_of_a_file_is_searched_only_while_it_is_stored(tables: Database) -> None:
    wanted = FileFilter(metadata=(("n", "4"),))
    for state, found in (("deleted", []), ("stored", [4])):
        await change(tables, IDS[4], state=state)
        assert await _numbers(tables, wanted) == found
        async with tables.reading(ALL_TENANTS) as connection:
            count = text("SELECT count(*) FROM file_metadata WHERE file_id = :file_id")
            kept = (await connection.execute(count, {"file_id": IDS[4]})).scalar_one()
        assert kept == 3 * len(found)


async def test_metadata_with_a_nul_is_stored_and_not_searched(tables: Database) -> None:
    for number, value in enumerate(("\0", "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"))):
        await change(tables, IDS[number], state="pending", metadata={"odd": value, "even": "x"})
        await change(tables, IDS[number], state="stored")
    assert 1 in await _numbers(tables, FileFilter(metadata=(("odd", "\U0001f600"),)))


@pytest.mark.parametrize("searched", [10_000, 2])
async def test_a_walk_meets_every_file_once(tables: Database, monkeypatch: pytest.MonkeyPatch, searched: int) -> None:
    monkeypatch.setattr(search, "MOST_SEARCHED", searched)
    for wanted, _index, found in FILTERS:
        met: list[str] = []
        after: str | None = ""
        async with tables.reading(ALL_TENANTS) as connection:
            while after is not None:
                ids, after = await search.walk(connection, "ten_1", wanted, after, 3)
                met += ids
        assert [IDS.index(file_id) for file_id in met] == sorted(found)
