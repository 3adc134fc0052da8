"""What must stay exact however many ask at once: quota, rate, plan, defaults, keys. One request after the other is tested elsewhere."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import httpx
import pytest

from tests.api.answers import data, page, rejected
from tests.api.samples import TEXT, noise
from tests.gate import Gate, Service

MB = 1_048_576
T = TypeVar("T")


def at_once(*asks: Callable[[], T]) -> list[T]:
    """Let all ask at the same moment, each in a thread of its own, and answer their answers in order."""
    line = threading.Barrier(len(asks))

    def start(ask: Callable[[], T]) -> T:
        line.wait(20)
        return ask()

    with ThreadPoolExecutor(len(asks)) as threads:
        return list(threads.map(start, asks))


def _statuses(answers: Sequence[httpx.Response]) -> Counter[int]:
    return Counter(answer.status_code for answer in answers)


@pytest.mark.asvs("5.2.4", "2.3.4", "15.4.2", "2.3.2")
def test_a_quota_is_filled_exactly(gate: Gate) -> None:
    """Ten of these fit, 64 try."""
    size = MB // 10
    context = gate.context(storage_quota_mb=1)
    answers = at_once(*[lambda: gate.upload("a.zzz", noise(size), context=context)] * 64)
    assert _statuses(answers) == {201: 10, 400: 54}
    for answer in answers:
        if answer.status_code == 400:
            rejected(answer, "storage_quota_exceeded")
    files, pagination = page(gate.get("/files", page_size=100))
    assert pagination["total"] == 10
    assert gate.used(context) == sum(item["size_bytes"] for item in files) == 10 * size <= MB
    assert len(gate.objects()) == 10


def test_used_bytes_stay_the_sum_while_files_come_and_go(gate: Gate) -> None:
    context = gate.context(storage_quota_mb=1)
    stored = [gate.store("a.zzz", noise(50_000), context=context) for _ in range(8)]
    deletes = [lambda file_id=file_id: gate.delete(f"/files/{file_id}") for file_id in stored]
    uploads = [lambda: gate.upload("b.zzz", noise(30_000), context=context)] * 16
    at_once(*deletes, *uploads)
    files, _ = page(gate.get("/files", page_size=100))
    assert gate.used(context) == sum(item["size_bytes"] for item in files)


def test_a_rate_is_kept_exactly(gate: Gate) -> None:
    context = gate.context(upload_rate_limit={"max_uploads": 5, "window_seconds": 3600})
    answers = at_once(*[lambda: gate.upload(context=context)] * 32)
    assert _statuses(answers) == {201: 5, 429: 27}
    assert gate.used(context) == 5 * len(TEXT)


def test_a_plan_is_kept_exactly(service: Service, places: object) -> None:
    """The shared service has the plan's own 500: one tenant is brought to 497 of them, and 16 try."""
    gate = service.new_gate("free").with_store()
    context = gate.context()
    gate.store(context=context)
    gate.sql("UPDATE plan_usage SET uploads = 497 WHERE tenant_id = :tenant", tenant=gate.tenant_id)
    answers = at_once(*[lambda: gate.upload(context=context)] * 16)
    assert _statuses(answers) == {201: 3, 429: 13}


def test_one_context_of_a_key_is_created(newcomer: Gate) -> None:
    body = {"context_key": "papers", "display_name": "Papers"}
    answers = at_once(*[lambda: newcomer.post("/contexts", body)] * 16)
    assert _statuses(answers) == {201: 1, 409: 15}
    assert page(newcomer.get("/contexts"))[1]["total"] == 1


def test_one_of_many_deletions_deletes(gate: Gate) -> None:
    context = gate.context()
    kept, gone = gate.store(context=context), gate.store(context=context)
    answers = at_once(*[lambda: gate.delete(f"/files/{gone}")] * 16)
    assert _statuses(answers) == {200: 1, 404: 15}
    assert gate.used(context) == len(TEXT)
    data(gate.get(f"/files/{kept}"))


def test_every_download_link_is_counted(gate: Gate) -> None:
    file_id = gate.store(context=gate.context())
    at_once(*[lambda: gate.get(f"/files/{file_id}")] * 32)
    assert data(gate.get(f"/files/{file_id}/metadata"))["download_count"] == 32


def test_many_revocations_of_one_key_all_succeed(newcomer: Gate) -> None:
    path = f"/api-keys/{newcomer.key('upload').api_key_id}"
    assert _statuses(at_once(*[lambda: newcomer.delete(path)] * 16)) == {200: 16}
    assert data(newcomer.get(path))["status"] == "revoked"


def test_a_revoked_key_stores_nothing_from_then_on(gate: Gate) -> None:
    """Uploads run while the key is revoked: none that began after the revocation was answered is taken."""
    context = gate.context()
    key = gate.key("upload")
    uploader = gate.as_(key)
    began_after: list[int] = []
    revoked = threading.Event()

    def upload_on() -> None:
        for _ in range(15):
            after = revoked.is_set()
            status = uploader.upload(context=context).status_code
            if after:
                began_after.append(status)

    def revoke() -> None:
        data(gate.delete(f"/api-keys/{key.api_key_id}"))
        revoked.set()

    at_once(upload_on, upload_on, upload_on, revoke)
    assert set(began_after) == {401}


def test_contexts_changed_at_once_keep_one_whole_change(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    changes = [{"display_name": f"name {number}", "description": f"text {number}"} for number in range(16)]
    answers = at_once(*[lambda change=change: newcomer.patch("/contexts/papers", change) for change in changes])
    assert _statuses(answers) == {200: 16}
    shown = data(newcomer.get("/contexts/papers"))
    assert {"display_name": shown["display_name"], "description": shown["description"]} in changes


def _defaults(gate: Gate) -> list[str]:
    return [bucket["config_id"] for bucket in data(gate.get(gate.buckets)) if bucket["is_default"]]


def test_first_buckets_added_at_once_have_one_default(weir: Gate) -> None:
    bodies = [weir.bucket_body(set_as_default=number % 2 == 0) for number in range(6)]
    answers = at_once(*[lambda body=body: weir.post(weir.buckets, body) for body in bodies])
    assert _statuses(answers) == {201: 6}
    assert len(_defaults(weir)) == 1


def test_buckets_of_one_name_added_at_once_are_one(weir: Gate) -> None:
    body = weir.bucket_body(name="one")
    answers = at_once(*[lambda: weir.post(weir.buckets, body)] * 6)
    assert _statuses(answers) == {201: 1, 409: 5}
    assert len(data(weir.get(weir.buckets))) == 1


def test_every_look_sees_one_default_while_it_moves(weir: Gate) -> None:
    ids = [weir.bucket()["config_id"] for _ in range(3)]
    seen: list[int] = []

    def move(config_id: str) -> None:
        for _ in range(8):
            data(weir.post(f"{weir.buckets}/{config_id}/set-default"))

    def look() -> None:
        seen.extend(len(_defaults(weir)) for _ in range(15))

    at_once(*[lambda config_id=config_id: move(config_id) for config_id in ids], look, look)
    assert set(seen) == {1}
    assert len(_defaults(weir)) == 1


@pytest.mark.parametrize("attempt", range(4))
def test_a_bound_bucket_is_never_deleted(weir: Gate, attempt: int) -> None:
    weir.bucket()
    config_id = weir.bucket()["config_id"]
    context = weir.context()
    bound, deleted = at_once(
        lambda: weir.patch(f"/contexts/{context}", {"storage_config_id": config_id}),
        lambda: weir.delete(f"{weir.buckets}/{config_id}"),
    )
    assert (bound.status_code, deleted.status_code) in {(200, 409), (422, 200)}


@pytest.mark.parametrize("attempt", range(4))
def test_the_default_is_never_deleted_or_switched_off(weir: Gate, attempt: int) -> None:
    weir.bucket()
    path = f"{weir.buckets}/{weir.bucket()['config_id']}"
    end = (lambda: weir.delete(path)) if attempt % 2 else (lambda: weir.patch(path, {"is_active": False}))
    moved, ended = at_once(lambda: weir.post(f"{path}/set-default"), end)
    assert sorted([moved.status_code == 200, ended.status_code == 200]) == [False, True]
    (default,) = [bucket for bucket in data(weir.get(weir.buckets)) if bucket["is_default"]]
    assert default["is_active"] is True
