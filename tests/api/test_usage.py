"""Usage and plan: what was uploaded, rejected and downloaded, by day and context, and what is used of the limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.api.responses import assert_rejected, assert_validation_error, data
from tests.api.samples import TEXT, noise
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient, Service

pytestmark = pytest.mark.engine


def _usage(client: ApiClient, **asked: str) -> dict[str, Any]:
    found: dict[str, Any] = data(client.get("/usage", **asked))
    return found


def test_usage_counts_what_happened_whatever_became_of_the_files(client: ApiClient) -> None:
    nothing = {"uploads": 0, "bytes_stored": 0, "downloads": 0, "rejections": {}}
    assert _usage(client)["total"] == nothing
    claims, photos = client.create_context(), client.create_context(reject_corrupt_files=False)
    file_id = client.store("a.txt", TEXT, context=claims)
    client.store("b.bin", noise(5000), context=photos)
    for number in range(2):
        data(client.get(f"/files/{file_id}"))
        assert_rejected(client.upload("c.txt", b"\0" * number, context=claims), "blank_document")
    data(client.delete(f"/files/{file_id}"))
    of_claims = {"uploads": 1, "bytes_stored": len(TEXT), "downloads": 2, "rejections": {"blank_document": 2}}
    of_photos = {"uploads": 1, "bytes_stored": 5000, "downloads": 0, "rejections": {}}
    total = of_claims | {"uploads": 2, "bytes_stored": len(TEXT) + 5000}
    today = datetime.now(UTC).date()
    week = {"from": str(today - timedelta(days=6)), "to": str(today + timedelta(days=1))}

    def assert_exact() -> None:
        by_context = _usage(client, by="context", **week)
        assert {group.pop("key"): group for group in by_context["groups"]} == {claims: of_claims, photos: of_photos}
        by_day = _usage(client, by="day", **week)
        assert by_day["total"] == by_context["total"] == total
        for name in ("uploads", "downloads"):
            assert sum(group[name] for group in by_day["groups"]) == 2

    assert_exact()
    assert until(lambda: not _deltas(client), 60)
    assert_exact()
    other = client.other_tenant_client()
    assert _usage(other, **week)["total"] == nothing


def _deltas(client: ApiClient) -> list[Any]:
    async def read(database: Database) -> list[Any]:
        async with database.reading(ALL_TENANTS) as connection:
            asked = text("SELECT delta_id FROM usage_deltas WHERE tenant_id = :tenant_id")
            return list((await connection.execute(asked, {"tenant_id": client.tenant_id})).all())

    return client.service.on_database(read)


@each_row("asked, field", [
    *(({"from": "2026-02-02", "to": "2026-02-01"}, "to"), ({"from": "2025-01-01", "to": "2026-02-01"}, "from")),
    *(({"from": "20260201"}, "from"), ({"to": "1700000000"}, "to"), ({"by": "hour"}, "by"), ({"colour": "red"}, "colour")),
])  # fmt: skip
def test_a_period_that_cannot_be_read_is_refused(shared_client: ApiClient, asked: dict[str, str], field: str) -> None:
    assert_validation_error(shared_client.get("/usage", **asked), field)


def test_plan_shows_the_limits_and_what_is_used_of_them(service: Service) -> None:
    client = service.new_client("free")
    context = client.create_context()
    client.store(context=context)
    client.delete(f"/files/{client.store(context=context)}")
    found = data(client.get("/plan"))
    limits = {limit["name"]: (limit["used"], limit["limit"]) for limit in found["limits"]}
    assert found["plan"] == "free"
    assert limits == {
        "uploads_per_month": (2, 500),
        "storage_bytes": (len(TEXT), None),
        "webhook_endpoints": (0, 10),
        "active_jobs": (0, 20),
    }
    resets = datetime.fromisoformat(found["limits"][0]["resets_at"])
    assert (resets.day, resets.hour) == (1, 0)
    assert timedelta(0) < resets - datetime.now(UTC) <= timedelta(days=31)
    unlimited = service.new_client("unlimited")
    assert data(unlimited.get("/plan"))["limits"][0]["limit"] is None
