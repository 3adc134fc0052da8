"""The scan limit of clamd as the service reports and enforces it, with and without limit alerts."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.responses import assert_validation_error, data
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.servers.clamd import running_clamd
from tests.service import ApiClient, Service, running_service

LIMITS = {"StreamMaxLength": "25M", "MaxFileSize": "25M"}


@pytest.fixture(scope="module", params=["yes", "no"])
def limited_service(
    request: pytest.FixtureRequest, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service whose clamd scans 25 MB and reports exceeded limits or does not."""
    with running_clamd(tmp_path_factory.mktemp("small"), {**LIMITS, "AlertExceedsMax": request.param}) as clamd:
        deployment = deployments.fresh("sqlite-local")
        with running_service(deployment, SCANNER="clamd", CLAMD=clamd.address) as service:
            yield service


@pytest.fixture
def limited_gate(limited_service: Service) -> ApiClient:
    scanner_of(limited_service, lambda scanner: isinstance(scanner["limits"]["scanned_bytes"], int))
    return limited_service.new_client()


def scanner_of(service: Service, when: Any = None) -> dict[str, Any]:
    """Return the entry of the scanner on the health page, once `when` is true."""
    deadline = time.monotonic() + 30
    while True:
        engines = service.ready().json()["engines"]
        scanner: dict[str, Any] = next(engine for engine in engines if engine["kind"] == "scanner")
        if when is None or when(scanner) or time.monotonic() > deadline:
            return scanner
        time.sleep(0.05)


def test_health_page_reports_scan_limit(limited_service: Service) -> None:
    scanner = scanner_of(limited_service, lambda scanner: isinstance(scanner["limits"]["scanned_bytes"], int))
    assert scanner["limits"]["scanned_bytes"] == 25 * 2**20


def test_context_over_scan_limit_is_refused(limited_gate: ApiClient) -> None:
    response = limited_gate.post("/contexts", {"context_key": "large", "display_name": "Large", "max_file_size_mb": 26})
    assert_validation_error(response, "max_file_size_mb")
    assert "expected at most 25 while scan_for_viruses is on" in response.json()["errors"][0]


def test_context_update_over_scan_limit_is_refused(limited_gate: ApiClient) -> None:
    key = limited_gate.create_context(max_file_size_mb=25)
    assert_validation_error(limited_gate.patch(f"/contexts/{key}", {"max_file_size_mb": 26}), "max_file_size_mb")
    unscanned = limited_gate.create_context(max_file_size_mb=500, scan_for_viruses=False)
    assert_validation_error(
        limited_gate.patch(f"/contexts/{unscanned}", {"scan_for_viruses": True}), "max_file_size_mb"
    )


def test_existing_context_over_scan_limit_is_reported(limited_gate: ApiClient) -> None:
    key = limited_gate.create_context(max_file_size_mb=500, scan_for_viruses=False)
    assert "context(s) take" not in scanner_of(limited_gate.service)["detail"]
    limited_gate.execute_sql("update contexts set scan_for_viruses = true where context_key = :key", key=key)
    scanner = scanner_of(limited_gate.service)
    assert scanner["state"] == "degraded"
    assert "1 context(s) take larger files than are scanned" in scanner["detail"]
    assert limited_gate.tenant_id not in scanner["detail"]
    settings = {
        name.removeprefix("SLUICE_"): value
        for name, value in limited_gate.service.environment.items()
        if "SLUICE_" in name
    }
    report = Sluice(limited_gate.service.deployment.folder, settings)("doctor", "--json").json
    detail = next(engine["detail"] for engine in report["engines"] if engine["kind"] == "scanner")
    assert f"{key} of {limited_gate.tenant_id} (500 MB)" in detail
    assert data(limited_gate.patch(f"/contexts/{key}", {"scan_for_viruses": False}))
