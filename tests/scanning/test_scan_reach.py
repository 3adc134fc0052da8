"""How large a file clamd really scans, as the service tells and enforces it: clamds with small limits, honest and silent ones."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.answers import data, invalid
from tests.api.places import Places
from tests.cli.commands import Sluice
from tests.gate import Gate, Service, running_service
from tests.servers.clamd import running_clamd

LIMITS = {"StreamMaxLength": "25M", "MaxFileSize": "25M"}


@pytest.fixture(scope="module", params=["yes", "no"])
def small(request: pytest.FixtureRequest, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose clamd scans 25 MB, and tells what it skips, or does not."""
    with running_clamd(tmp_path_factory.mktemp("small"), {**LIMITS, "AlertExceedsMax": request.param}) as clamd:
        place = places.fresh("sqlite-local")
        with running_service(place, SCANNER="clamd", CLAMD=clamd.address) as service:
            yield service


@pytest.fixture
def narrow(small: Service) -> Gate:
    scanner_of(small, lambda scanner: scanner["limits"]["scanned_bytes"] != "unknown")
    return small.new_gate()


def scanner_of(service: Service, when: Any = None) -> dict[str, Any]:
    """Answer what the health page says of the scanner, once `when` holds."""
    deadline = time.monotonic() + 30
    while True:
        engines = service.http.get("/health/ready").json()["engines"]
        scanner: dict[str, Any] = next(engine for engine in engines if engine["kind"] == "scanner")
        if when is None or when(scanner) or time.monotonic() > deadline:
            return scanner
        time.sleep(0.05)


def test_the_health_page_tells_how_much_is_scanned(small: Service) -> None:
    scanner = scanner_of(small, lambda scanner: scanner["limits"]["scanned_bytes"] != "unknown")
    assert scanner["limits"]["scanned_bytes"] == 25 * 2**20


def test_a_context_larger_than_what_is_scanned_is_refused(narrow: Gate) -> None:
    refused = narrow.post("/contexts", {"context_key": "large", "display_name": "Large", "max_file_size_mb": 26})
    invalid(refused, "max_file_size_mb")
    assert "expected at most 25 while scan_for_viruses is on" in refused.json()["errors"][0]


def test_a_context_that_becomes_larger_than_what_is_scanned_is_refused(narrow: Gate) -> None:
    key = narrow.context(max_file_size_mb=25)
    invalid(narrow.patch(f"/contexts/{key}", {"max_file_size_mb": 26}), "max_file_size_mb")
    unscanned = narrow.context(max_file_size_mb=500, scan_for_viruses=False)
    invalid(narrow.patch(f"/contexts/{unscanned}", {"scan_for_viruses": True}), "max_file_size_mb")


def test_a_context_from_before_is_told_on_the_health_page_and_by_doctor(narrow: Gate) -> None:
    key = narrow.context(max_file_size_mb=500, scan_for_viruses=False)
    assert "context(s) take" not in scanner_of(narrow.service)["detail"]
    narrow.sql("update contexts set scan_for_viruses = true where context_key = :key", key=key)
    told = scanner_of(narrow.service)
    assert told["state"] == "degraded"
    assert "1 context(s) take larger files than are scanned" in told["detail"]
    assert narrow.tenant_id not in told["detail"]
    settings = {name.removeprefix("SLUICE_"): value for name, value in narrow.service.environment.items() if "SLUICE_" in name}
    said = Sluice(narrow.service.place.folder, settings)("doctor", "--json").json
    detail = next(engine["detail"] for engine in said["engines"] if engine["kind"] == "scanner")
    assert f"{key} of {narrow.tenant_id} (500 MB)" in detail
    assert data(narrow.patch(f"/contexts/{key}", {"scan_for_viruses": False}))
