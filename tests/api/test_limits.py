"""Limits over time: rate, plan and quota, one request after the other. Many requests at once are in `test_concurrency`."""

import time

import httpx
import pytest

from tests.api.answers import data, rejected
from tests.api.places import Places
from tests.api.samples import TEXT, eicar, noise, picture
from tests.gate import Gate, Service, running_service

MB = 1_048_576


def _wait_is_told(answer: httpx.Response) -> None:
    """Hold a 429 to saying when to come back."""
    assert int(answer.headers["retry-after"]) >= 1
    assert int(answer.headers["ratelimit-remaining"]) == 0
    assert int(answer.headers["ratelimit-limit"]) >= 0
    assert int(answer.headers["ratelimit-reset"]) >= 1


# rate


def _rated(gate: Gate, max_uploads: int, window_seconds: int, **rules: object) -> str:
    return gate.context(upload_rate_limit={"max_uploads": max_uploads, "window_seconds": window_seconds}, **rules)


def test_one_upload_more_than_the_rate_is_rejected(gate: Gate) -> None:
    context = _rated(gate, 2, 3600)
    for _ in range(2):
        gate.store(context=context)
    answer = gate.upload(context=context)
    rejected(answer, "rate_limit_exceeded", 429)
    _wait_is_told(answer)
    assert int(answer.headers["ratelimit-limit"]) == 2
    assert 3500 <= int(answer.headers["retry-after"]) <= 3600
    assert gate.used(context) == 2 * len(TEXT)


def test_the_wait_that_is_told_is_long_enough(gate: Gate) -> None:
    context = _rated(gate, 1, 1)
    gate.store(context=context)
    answer = gate.upload(context=context)
    rejected(answer, "rate_limit_exceeded", 429)
    time.sleep(int(answer.headers["retry-after"]))  # what the service itself asks of its clients
    gate.store(context=context)


@pytest.mark.asvs("2.3.2")
def test_no_window_holds_more_than_the_rate(gate: Gate) -> None:
    """Ask without pause for three windows: any four accepted in a row span more than one."""
    context = _rated(gate, 3, 1)
    accepted: list[tuple[float, float]] = []
    end = time.monotonic() + 3
    while time.monotonic() < end:
        sent = time.monotonic()
        if gate.upload(context=context).status_code == 201:
            accepted.append((sent, time.monotonic()))
    assert len(accepted) >= 6
    assert all(later[1] - sooner[0] >= 1 for sooner, later in zip(accepted, accepted[3:], strict=False))


def test_a_rate_is_of_one_context(gate: Gate) -> None:
    first, second = _rated(gate, 1, 3600), _rated(gate, 1, 3600)
    gate.store(context=first)
    gate.store(context=second)
    rejected(gate.upload(context=first), "rate_limit_exceeded", 429)


def test_attempts_that_fail_later_rules_count_against_the_rate(gate: Gate) -> None:
    context = _rated(gate, 2, 3600)
    rejected(gate.upload("a.png", picture()[:-20], context=context), "corrupt_file")
    rejected(gate.upload("a.txt", eicar(), context=context), "virus_detected")
    rejected(gate.upload(context=context), "rate_limit_exceeded", 429)


def test_attempts_that_fail_earlier_rules_count_not(gate: Gate) -> None:
    context = _rated(gate, 1, 3600, allowed_extensions=["txt", "zzz"], max_file_size_mb=1)
    rejected(gate.upload("a.exe", context=context), "extension_not_allowed")
    rejected(gate.upload("a.zzz", noise(MB + 1), context=context), "file_too_large")
    gate.store(context=context)


def test_refused_requests_count_not(gate: Gate) -> None:
    context = _rated(gate, 1, 3600)
    assert gate.upload(context=context, metadata="nonsense").status_code == 422
    assert gate.as_(None).upload(context=context).status_code == 401
    gate.store(context=context)


def test_the_rate_is_told_before_the_quota(gate: Gate) -> None:
    context = _rated(gate, 1, 3600, storage_quota_mb=1)
    rejected(gate.upload("a.zzz", noise(MB + 1), context=context), "storage_quota_exceeded")
    rejected(gate.upload("a.zzz", noise(MB + 1), context=context), "rate_limit_exceeded", 429)


def test_a_raised_rate_counts_at_once(gate: Gate) -> None:
    context = _rated(gate, 1, 3600)
    gate.store(context=context)
    gate.patch(f"/contexts/{context}", {"upload_rate_limit": {"max_uploads": 2, "window_seconds": 3600}})
    gate.store(context=context)
    rejected(gate.upload(context=context), "rate_limit_exceeded", 429)


def test_a_lifted_rate_counts_at_once(gate: Gate) -> None:
    context = _rated(gate, 1, 3600)
    gate.store(context=context)
    gate.patch(f"/contexts/{context}", {"upload_rate_limit": None})
    gate.store(context=context)


# plan


@pytest.mark.asvs("5.2.4")
def test_a_free_tenant_stores_so_many_files_a_month(hasty: Service) -> None:
    gate = hasty.new_gate("free").with_store()
    context, other = gate.context(), gate.context()
    for place in (context, other, context):
        gate.store(context=place)
    answer = gate.upload(context=other)
    rejected(answer, "monthly_limit_exceeded", 429)
    _wait_is_told(answer)
    assert int(answer.headers["retry-after"]) <= 31 * 86400


def test_files_that_are_not_stored_count_against_no_plan(hasty: Service) -> None:
    gate = hasty.new_gate("free").with_store()
    context = gate.context()
    for _ in range(4):
        rejected(gate.upload("a.png", picture()[:-20], context=context), "corrupt_file")
    gate.store(context=context)


def test_deleting_a_file_gives_no_upload_back(hasty: Service) -> None:
    gate = hasty.new_gate("free").with_store()
    context = gate.context()
    for _ in range(3):
        gate.delete(f"/files/{gate.store(context=context)}")
    rejected(gate.upload(context=context), "monthly_limit_exceeded", 429)


def test_a_tenant_without_a_plan_limit_stores_on(hasty: Service) -> None:
    gate = hasty.new_gate("unlimited").with_store()
    context = gate.context()
    for _ in range(5):
        gate.store(context=context)


def test_files_of_test_keys_count_against_no_plan(hasty: Service) -> None:
    gate = hasty.new_gate("free").with_store()
    context = gate.context()
    tester = gate.as_(gate.test_key("upload"))
    for _ in range(5):
        tester.store(context=context)
    gate.store(context=context)


def test_a_new_month_begins_anew(hasty: Service) -> None:
    gate = hasty.new_gate("free").with_store()
    context = gate.context()
    for _ in range(3):
        gate.store(context=context)
    gate.sql("UPDATE plan_usage SET month = '2001-01' WHERE tenant_id = :tenant", tenant=gate.tenant_id)
    gate.store(context=context)


# quota


def test_a_quota_may_be_filled_to_the_last_byte(gate: Gate) -> None:
    context = gate.context(storage_quota_mb=1)
    gate.store("a.zzz", noise(MB - 1), context=context)
    gate.store("b.zzz", b"\x07", context=context)
    assert gate.used(context) == MB


def test_the_largest_quota_takes_files(gate: Gate) -> None:
    """Ten terabytes are more bytes than an integer of a database may have."""
    context = gate.context(storage_quota_mb=10_485_760)
    gate.store(context=context)
    assert gate.used(context) == len(TEXT)


@pytest.mark.asvs("5.2.4")
def test_a_byte_more_than_the_quota_is_rejected(gate: Gate) -> None:
    context = gate.context(storage_quota_mb=1)
    gate.store("a.zzz", noise(MB - 1), context=context)
    rejected(gate.upload("b.zzz", b"\x07\x08", context=context), "storage_quota_exceeded")
    assert gate.used(context) == MB - 1
    assert len(gate.objects()) == 1


def test_a_deleted_file_frees_its_bytes_at_once(gate: Gate) -> None:
    context = gate.context(storage_quota_mb=1)
    file_id = gate.store("a.zzz", noise(MB), context=context)
    data(gate.delete(f"/files/{file_id}"))
    assert gate.used(context) == 0
    gate.store("b.zzz", noise(MB), context=context)


def test_a_lowered_quota_takes_nothing_away(gate: Gate) -> None:
    context = gate.context()
    file_id = gate.store("a.zzz", noise(MB + 1), context=context)
    gate.patch(f"/contexts/{context}", {"storage_quota_mb": 1})
    data(gate.get(f"/files/{file_id}/metadata"))
    assert gate.used(context) == MB + 1
    rejected(gate.upload("b.zzz", b"\x07", context=context), "storage_quota_exceeded")


def test_the_used_bytes_of_a_context_are_those_of_its_files(gate: Gate) -> None:
    first, second = gate.context(), gate.context()
    gate.store("a.zzz", noise(1000), context=first)
    gate.store("b.zzz", noise(234), context=first)
    assert (gate.used(first), gate.used(second)) == (1234, 0)
    listed = {item["context_key"]: item["storage_used_bytes"] for item in gate.get("/contexts").json()["data"]}
    assert listed == {first: 1234, second: 0}


# everything else that is limited


@pytest.mark.asvs("6.1.1", "6.3.1", "15.2.2")
def test_too_many_failed_credentials_are_slowed_down(places: Places) -> None:
    with running_service(places.fresh("sqlite-local"), FAILED_LOGINS="5") as service:
        gate = service.new_gate().as_("wrong")
        answers = [gate.get("/contexts") for _ in range(7)]
    assert [answer.status_code for answer in answers] == [401] * 5 + [429] * 2
    assert answers[-1].json()["message"] == "Too many requests"
    assert int(answers[-1].headers["retry-after"]) >= 1


def _fail_as(service: Service, address: str, times: int) -> list[int]:
    gate = service.new_gate().as_("wrong")
    return [gate.ask("GET", "/contexts", headers={"X-Forwarded-For": address}).status_code for _ in range(times)]


@pytest.mark.asvs("4.1.3", "15.3.4")
def test_failed_credentials_are_counted_by_the_address_that_a_trusted_proxy_names(places: Places) -> None:
    with running_service(places.fresh("sqlite-local"), FAILED_LOGINS="2", TRUSTED_PROXIES="127.0.0.1") as service:
        assert _fail_as(service, "192.0.2.1", 3) == [401, 401, 429]
        assert _fail_as(service, "192.0.2.2", 1) == [401]
        # what stands left of the proxy's own entry was written by the client
        assert _fail_as(service, "192.0.2.9, 192.0.2.1", 1) == [429]


@pytest.mark.asvs("4.1.3", "15.3.4")
def test_an_address_that_no_trusted_proxy_names_counts_for_nothing(places: Places) -> None:
    with running_service(places.fresh("sqlite-local"), FAILED_LOGINS="2") as service:
        assert [*_fail_as(service, "192.0.2.1", 2), *_fail_as(service, "192.0.2.2", 1)] == [401, 401, 429]
