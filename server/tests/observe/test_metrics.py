"""`/metrics`: uploads, requests, pools and the worker, without labels that name anybody."""

import time

import httpx
import pytest

from tests.api import forms, raw_http
from tests.api.responses import assert_rejected
from tests.api.samples import TEXT, noise
from tests.observe.metrics_page import MetricsPage, read_metrics, until
from tests.service import Service

STAGES = {"authenticate", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record", "upload"}


def uploads(page: MetricsPage, outcome: str, reason: str = "") -> float:
    return page("sluice_uploads_total", mode="store", outcome=outcome, reason=reason)


def test_uploads_are_counted_by_outcome(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    context, before = client.create_context(allowed_extensions=["txt"]), read_metrics(sqlite_local.url)
    client.store(context=context)
    assert_rejected(client.upload("a.txt", b"", context=context), "blank_document")
    assert_rejected(client.upload("a.exe", TEXT, context=context), "extension_not_allowed")
    assert client.upload(context="nowhere").status_code == 404
    after = read_metrics(sqlite_local.url)
    outcomes = [("stored", ""), ("rejected", "blank_document")]
    outcomes += [("rejected", "extension_not_allowed"), ("refused", "not_found")]
    assert [uploads(after, *each) - uploads(before, *each) for each in outcomes] == [1, 1, 1, 1]
    assert after("sluice_upload_bytes_total") - before("sluice_upload_bytes_total") == len(TEXT)


def test_every_stage_of_an_upload_is_timed(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    context = client.create_context(upload_rate_limit={"max_uploads": 9, "window_seconds": 60})
    before = read_metrics(sqlite_local.url)
    client.store(context=context)
    after = read_metrics(sqlite_local.url)
    for stage in STAGES:
        counted = "sluice_stage_seconds_count"
        assert after(counted, stage=stage) == before(counted, stage=stage) + 1, stage
        took = after("sluice_stage_seconds_sum", stage=stage) - before("sluice_stage_seconds_sum", stage=stage)
        assert 0 < took < 60, stage


def test_requests_are_counted_by_route_and_status(sqlite_local: Service) -> None:
    client, name = sqlite_local.new_client(), "sluice_http_requests_total"
    context, before = client.create_context(), read_metrics(sqlite_local.url)
    client.store(context=context)
    for _ in range(3):
        assert client.get("/files/file_unknown/metadata").status_code == 404
    after = read_metrics(sqlite_local.url)
    uploaded = {"method": "POST", "route": "/api/v1/files/upload", "status": "201"}
    assert after(name, **uploaded) - before(name, **uploaded) == 1
    labels = {"method": "GET", "route": "/api/v1/files/{file_id}/metadata", "status": "404"}
    assert after(name, **labels) - before(name, **labels) == 3


def test_unknown_methods_and_paths_add_no_series(sqlite_local: Service) -> None:
    def send(method: str, number: int) -> None:
        for path in ("/", "/api/v1/nothing/{}", "/metrics/{}", "/api/v1/../{}"):
            assert httpx.request(method, sqlite_local.url + path.format(number)).status_code in {404, 405}

    send("PROPFIND", 0)
    read_metrics(sqlite_local.url)  # whose own series is there from now on
    before = read_metrics(sqlite_local.url).series
    send("MKCOL", 1)
    assert read_metrics(sqlite_local.url).series == before


def test_no_label_names_a_tenant_a_context_or_a_file(sqlite_local: Service) -> None:
    clients = [sqlite_local.new_client() for _ in range(2)]
    known: set[object] = set()
    read_metrics(sqlite_local.url)  # whose own series is there from now on
    for at, client in enumerate(clients):
        context = client.create_context(context_key=f"canary_context_{at}")
        file_id = client.store("canary-file.txt", context=context)
        client.get(f"/files/{file_id}")
        client.with_credential("sl_live_canary").get("/files")
        page = read_metrics(sqlite_local.url)
        assert client.tenant_id not in page.text
        assert "canary" not in page.text
        assert file_id not in page.text
        if at:
            assert page.series == known, "a second tenant adds no series"
        known = set(page.series)


def test_an_upload_in_progress_shows_in_the_spool_metrics(sqlite_local: Service) -> None:
    size = 3 * 1024**2
    with raw_http.connection(client := sqlite_local.new_client()) as connection:
        head = raw_http.request_head(client, f"Content-Length: {2 * size}", f"Content-Type: {forms.content_type()}")
        connection.sendall(head + forms.head(forms.file("a.zzz", b"")) + noise(size))
        page = until(
            lambda: read_metrics(sqlite_local.url), lambda page: page("sluice_spool_bytes", where="disk") > size / 2
        )
        assert page("sluice_uploads_under_way") == 1
        assert 0 < page("sluice_spool_free_bytes") < page("sluice_spool_size_bytes")
    until(lambda: read_metrics(sqlite_local.url), lambda page: page("sluice_spool_bytes", where="disk") == 0)
    assert read_metrics(sqlite_local.url)("sluice_uploads_under_way") == 0


@pytest.mark.engine
def test_every_engine_reports_its_state_and_every_pool_its_size(service: Service) -> None:
    page = read_metrics(service.url)
    engines = service.ready().json()["engines"]
    for engine in engines:
        for state in ("up", "degraded", "down"):
            reported = page("sluice_engine_state", kind=engine["kind"], engine=engine["name"], state=state)
            assert reported == (engine["state"] == state), engine
    for pool in ("database", "database_uploads", "sandbox", "scanner"):
        assert page("sluice_pool_size", pool=pool) >= 1, pool
        assert ("sluice_pool_in_use", frozenset({("pool", pool)})) in page.series


def test_clamd_metrics_include_the_age_of_the_signatures(postgres_s3: Service) -> None:
    page = read_metrics(postgres_s3.url)
    assert page("sluice_scanner_daemons", state="in_service") == 1
    assert page("sluice_scanner_daemons", state="away") == 0
    assert page("sluice_scanner_signature_age_seconds") >= 0


def test_worker_metrics_show_rounds_and_backlog(sqlite_local: Service) -> None:
    name = "sluice_worker_rounds_total"
    before = read_metrics(sqlite_local.url)(name, outcome="done")
    page = until(lambda: read_metrics(sqlite_local.url), lambda page: page(name, outcome="done") > before)
    assert abs(time.time() - page("sluice_worker_last_round_timestamp_seconds")) < 30
    for queue in ("leases", "purge", "test_files"):
        assert ("sluice_worker_due", frozenset({("queue", queue)})) in page.series
