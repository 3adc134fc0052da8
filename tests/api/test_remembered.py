"""What an upload remembers of its caller and its context: whoever changed them, in whichever process, the next answer tells.

One process remembers for ten seconds, another changes: so nothing is told by one process to itself.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from tests.api.answers import data, rejected, unauthenticated
from tests.api.places import Places
from tests.api.samples import noise
from tests.gate import Gate, Service, running_service


@pytest.fixture(scope="module")
def forgetful(service: Service) -> Iterator[Service]:
    """Another process of the same service that remembers for as long as one may."""
    with running_service(service.place, REMEMBER_SECONDS="10") as process:
        yield process


@pytest.fixture
def context(gate: Gate) -> str:
    return gate.context(allowed_extensions=["zzz"], storage_quota_mb=1)


@pytest.fixture
def elsewhere(gate: Gate, forgetful: Service, context: str) -> Gate:
    """The way through the process that remembers; it has seen the context and the credential."""
    there = Gate(forgetful, gate.tenant_id, gate.authorization)
    there.store("a.zzz", noise(100), context=context)
    return there


def test_a_revoked_key_stores_nothing(gate: Gate, elsewhere: Gate, context: str) -> None:
    key = gate.key("upload")
    there = elsewhere.as_(key)
    there.store("a.zzz", noise(100), context=context)
    before = gate.objects()
    data(gate.delete(f"/api-keys/{key.api_key_id}"))
    unauthenticated(there.upload("a.zzz", noise(100), context=context))
    assert gate.objects() == before


@pytest.mark.parametrize("name", ["a.exe", ""], ids=["forbidden-extension", "bad-form"])
def test_a_revoked_key_learns_nothing_of_the_rules(gate: Gate, elsewhere: Gate, context: str, name: str) -> None:
    key = gate.key("upload")
    there = elsewhere.as_(key)
    there.store("a.zzz", noise(100), context=context)
    data(gate.delete(f"/api-keys/{key.api_key_id}"))
    unauthenticated(there.upload(name, noise(100), context=context))


def test_a_key_that_may_upload_no_more_is_told_so(gate: Gate, elsewhere: Gate, context: str) -> None:
    key = gate.key("upload")
    there = elsewhere.as_(key)
    there.store("a.zzz", noise(100), context=context)
    data(gate.patch(f"/api-keys/{key.api_key_id}", {"scopes": ["metadata"]}))
    assert there.upload("a.zzz", noise(100), context=context).status_code == 403


def test_a_renamed_key_uploads_under_its_new_name(gate: Gate, elsewhere: Gate, context: str) -> None:
    key = gate.key("upload", name="old")
    there = elsewhere.as_(key)
    there.store("a.zzz", noise(100), context=context)
    data(gate.patch(f"/api-keys/{key.api_key_id}", {"name": "new"}))
    there.store("a.zzz", noise(100), context=context)
    assert gate.decisions()[-1]["actor"]["name"] == "new"


@pytest.mark.parametrize("via", ["key", "jwt"])
def test_a_suspended_tenant_stores_nothing(gate: Gate, elsewhere: Gate, context: str, via: str) -> None:
    there = elsewhere if via == "key" else elsewhere.as_(gate.token(scope="upload"))
    there.store("a.zzz", noise(100), context=context)
    gate.set_status("suspended")
    unauthenticated(there.upload("a.zzz", noise(100), context=context))


def test_a_stricter_rule_holds_at_once(gate: Gate, elsewhere: Gate, context: str) -> None:
    data(gate.patch(f"/contexts/{context}", {"allowed_extensions": ["txt"]}))
    rejected(elsewhere.upload("a.zzz", noise(100), context=context), "extension_not_allowed")


def test_a_milder_rule_holds_at_once(gate: Gate, elsewhere: Gate, context: str) -> None:
    data(gate.patch(f"/contexts/{context}", {"allowed_extensions": ["yyy"], "max_file_size_mb": 2, "storage_quota_mb": 9}))
    elsewhere.store("a.yyy", noise(1_500_000), context=context)


def test_a_file_over_the_old_size_is_taken_whole_under_the_new(gate: Gate, elsewhere: Gate) -> None:
    context = gate.context(max_file_size_mb=1)
    elsewhere.store("a.zzz", noise(100), context=context)
    data(gate.patch(f"/contexts/{context}", {"max_file_size_mb": 3}))
    file_id = elsewhere.store("a.zzz", noise(2_500_000), context=context)
    assert data(gate.get(f"/files/{file_id}/metadata"))["size_bytes"] == 2_500_000


def test_a_closed_context_takes_nothing_and_an_opened_one_does(gate: Gate, elsewhere: Gate, context: str) -> None:
    data(gate.patch(f"/contexts/{context}", {"status": "inactive"}))
    assert elsewhere.upload("a.zzz", noise(100), context=context).status_code == 409
    data(gate.patch(f"/contexts/{context}", {"status": "active"}))
    elsewhere.store("a.zzz", noise(100), context=context)


def test_a_quota_that_has_room_again_is_used(gate: Gate, elsewhere: Gate, context: str) -> None:
    file_id = elsewhere.store("a.zzz", noise(900_000), context=context)
    rejected(elsewhere.upload("a.zzz", noise(900_000), context=context), "storage_quota_exceeded")
    data(gate.delete(f"/files/{file_id}"))
    elsewhere.store("a.zzz", noise(900_000), context=context)


def test_a_rate_limit_counts_an_upload_once_though_it_is_judged_twice(gate: Gate, elsewhere: Gate, context: str) -> None:
    limit = {"max_uploads": 2, "window_seconds": 60}
    data(gate.patch(f"/contexts/{context}", {"upload_rate_limit": limit}))
    elsewhere.store("a.zzz", noise(100), context=context)
    data(gate.patch(f"/contexts/{context}", {"storage_path_template": "{file_id}"}))
    elsewhere.store("a.zzz", noise(100), context=context)
    rejected(elsewhere.upload("a.zzz", noise(100), context=context), "rate_limit_exceeded", status=429)


@pytest.mark.usefixtures("s3")
def test_a_new_default_bucket_takes_the_next_upload(gate: Gate, elsewhere: Gate, context: str) -> None:
    gate.bucket(set_as_default=True, base_path=f"{gate.tenant_id}/moved")
    elsewhere.store("a.zzz", noise(100), context=context)
    assert sum("/moved/" in key for key in gate.objects()) == 1


@pytest.mark.usefixtures("s3")
def test_a_bucket_that_was_closed_takes_nothing(gate: Gate, elsewhere: Gate, context: str) -> None:
    bucket = gate.bucket()
    data(gate.patch(f"/contexts/{context}", {"storage_config_id": bucket["config_id"]}))
    elsewhere.store("a.zzz", noise(100), context=context)
    data(gate.patch(f"{gate.buckets}/{bucket['config_id']}", {"is_active": False}))
    assert elsewhere.upload("a.zzz", noise(100), context=context).status_code == 409
    data(gate.patch(f"{gate.buckets}/{bucket['config_id']}", {"is_active": True}))
    elsewhere.store("a.zzz", noise(100), context=context)


def test_an_outcome_that_is_not_known_is_told_also_to_a_key_that_was_revoked_meanwhile(places: Places) -> None:
    with running_service(places.fresh("postgres-s3"), DATABASE_LOCK_SECONDS="1", REMEMBER_SECONDS="10") as service:
        gate = service.new_gate()
        context = gate.context(allowed_extensions=["zzz"])
        there = gate.as_(gate.key("upload"))
        there.store("a.zzz", noise(100), context=context)
        answer = _while_nothing_can_be_recorded(service, lambda: there.upload("b.zzz", noise(100), context=context))
    assert answer.status_code == 503
    assert "may have been stored" in answer.text


def _while_nothing_can_be_recorded(service: Service, upload: Callable[[], httpx.Response]) -> httpx.Response:
    """Let it reserve and store, and revoke every key while it waits to record: it gives up waiting."""
    locked, answered = threading.Event(), threading.Event()

    async def hold(database: Database) -> None:
        async with database.transaction(EVERYBODY) as connection:
            await connection.execute(text("LOCK TABLE decisions"))
            locked.set()
            while not (await connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))).scalar_one():
                pass
            async with database.transaction(EVERYBODY) as other:
                await other.execute(text("UPDATE api_keys SET status = 'revoked'"))
            await asyncio.to_thread(answered.wait, 30)

    with ThreadPoolExecutor(1) as threads:
        holding = threads.submit(service.on_database, hold)
        try:
            assert locked.wait(30)
            return upload()
        finally:
            answered.set()
            holding.result()
