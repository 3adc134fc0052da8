"""`/metrics`: what is counted of uploads, requests, pools and the worker, and that no label names anybody."""

import time

import httpx

from tests.api import forms, raw
from tests.api.answers import rejected
from tests.api.samples import TEXT, noise
from tests.gate import Service
from tests.observe.numbers import Numbers, numbers, until

STAGES = {"authenticate", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record", "upload"}


def uploads(page: Numbers, outcome: str, reason: str = "") -> float:
    return page("sluice_uploads_total", mode="store", outcome=outcome, reason=reason)


def test_an_upload_is_counted_by_what_became_of_it(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    context, before = gate.context(allowed_extensions=["txt"]), numbers(sqlite_local.url)
    gate.store(context=context)
    rejected(gate.upload("a.txt", b"", context=context), "blank_document")
    rejected(gate.upload("a.exe", TEXT, context=context), "extension_not_allowed")
    assert gate.upload(context="nowhere").status_code == 404
    after = numbers(sqlite_local.url)
    became = [("stored", ""), ("rejected", "blank_document"), ("rejected", "extension_not_allowed"), ("refused", "not_found")]
    assert [uploads(after, *each) - uploads(before, *each) for each in became] == [1, 1, 1, 1]
    assert after("sluice_upload_bytes_total") - before("sluice_upload_bytes_total") == len(TEXT)


def test_every_stage_of_an_upload_has_its_seconds(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    context, before = gate.context(upload_rate_limit={"max_uploads": 9, "window_seconds": 60}), numbers(sqlite_local.url)
    gate.store(context=context)
    after = numbers(sqlite_local.url)
    for stage in STAGES:
        counted = "sluice_stage_seconds_count"
        assert after(counted, stage=stage) == before(counted, stage=stage) + 1, stage
        took = after("sluice_stage_seconds_sum", stage=stage) - before("sluice_stage_seconds_sum", stage=stage)
        assert 0 < took < 60, stage


def test_requests_are_counted_by_route_and_status(sqlite_local: Service) -> None:
    gate, name = sqlite_local.new_gate(), "sluice_http_requests_total"
    context, before = gate.context(), numbers(sqlite_local.url)
    gate.store(context=context)
    for _ in range(3):
        assert gate.get("/files/file_unknown/metadata").status_code == 404
    after = numbers(sqlite_local.url)
    uploaded = {"method": "POST", "route": "/api/v1/files/upload", "status": "201"}
    assert after(name, **uploaded) - before(name, **uploaded) == 1
    labels = {"method": "GET", "route": "/api/v1/files/{file_id}/metadata", "status": "404"}
    assert after(name, **labels) - before(name, **labels) == 3


def test_what_strangers_invent_makes_no_series_of_its_own(sqlite_local: Service) -> None:
    def send(method: str, number: int) -> None:
        for path in ("/", "/api/v1/nothing/{}", "/metrics/{}", "/api/v1/../{}"):
            assert httpx.request(method, sqlite_local.url + path.format(number)).status_code in {404, 405}

    send("PROPFIND", 0)
    before = numbers(sqlite_local.url).series
    send("MKCOL", 1)
    assert numbers(sqlite_local.url).series == before


def test_no_number_names_a_tenant_a_context_or_a_file(sqlite_local: Service) -> None:
    gates = [sqlite_local.new_gate() for _ in range(2)]
    known: set[object] = set()
    for at, gate in enumerate(gates):
        context = gate.context(context_key=f"canary_context_{at}")
        file_id = gate.store("canary-file.txt", context=context)
        gate.get(f"/files/{file_id}")
        gate.as_("sl_live_canary").get("/files")
        page = numbers(sqlite_local.url)
        assert gate.tenant_id not in page.text
        assert "canary" not in page.text
        assert file_id not in page.text
        if at:
            assert page.series == known, "a second tenant makes no further series"
        known = set(page.series)


def test_an_upload_under_way_shows_in_the_spool(sqlite_local: Service) -> None:
    size = 3 * 1024**2
    with raw.connection(gate := sqlite_local.new_gate()) as plug:
        head = raw.request_head(gate, f"Content-Length: {2 * size}", f"Content-Type: {forms.content_type()}")
        plug.sendall(head + forms.head(forms.file("a.zzz", b"")) + noise(size))
        page = until(lambda: numbers(sqlite_local.url), lambda page: page("sluice_spool_bytes", where="disk") > size / 2)
        assert page("sluice_uploads_under_way") == 1
        assert 0 < page("sluice_spool_free_bytes") < page("sluice_spool_size_bytes")
    until(lambda: numbers(sqlite_local.url), lambda page: page("sluice_spool_bytes", where="disk") == 0)
    assert numbers(sqlite_local.url)("sluice_uploads_under_way") == 0


def test_every_engine_tells_its_state_and_every_pool_its_places(service: Service) -> None:
    page = numbers(service.url)
    engines = httpx.get(f"{service.url}/health/ready", timeout=30).json()["engines"]
    for engine in engines:
        for state in ("up", "degraded", "down"):
            told = page("sluice_engine_state", kind=engine["kind"], engine=engine["name"], state=state)
            assert told == (engine["state"] == state), engine
    for pool in ("database", "database_uploads", "sandbox", "scanner"):
        assert page("sluice_pool_size", pool=pool) >= 1, pool
        assert ("sluice_pool_in_use", frozenset({("pool", pool)})) in page.series


def test_the_scanner_daemons_tell_the_age_of_their_signatures(postgres_s3: Service) -> None:
    page = numbers(postgres_s3.url)
    assert page("sluice_scanner_daemons", state="in_service") == 1
    assert page("sluice_scanner_daemons", state="away") == 0
    assert page("sluice_scanner_signature_age_seconds") >= 0


def test_the_worker_tells_what_it_did_and_what_waits(sqlite_local: Service) -> None:
    name = "sluice_worker_rounds_total"
    before = numbers(sqlite_local.url)(name, outcome="done")
    page = until(lambda: numbers(sqlite_local.url), lambda page: page(name, outcome="done") > before)
    assert abs(time.time() - page("sluice_worker_last_round_timestamp_seconds")) < 30
    for queue in ("leases", "purge", "test_files"):
        assert ("sluice_worker_due", frozenset({("queue", queue)})) in page.series
