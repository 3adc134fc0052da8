"""The scanner that `SLUICE_SCANNER=auto` chooses, and that the log, the health page and decisions name it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deployments import Deployments
from tests.servers.clamd import running_clamd
from tests.service import Service, running_service


def scanner_of(service: Service) -> dict[str, Any]:
    """Return the entry of the scanner on the health page."""
    engines = service.ready().json()["engines"]
    scanner: dict[str, Any] = next(engine for engine in engines if engine["kind"] == "scanner")
    return scanner


def recorded_engine(service: Service) -> str:
    """Upload a file and return the engine that its decision names."""
    client = service.new_client()
    client.store(context=client.create_context())
    engine: str = client.decisions()[-1]["facts"]["scanned"]["engine"]
    return engine


@pytest.fixture(params=["yes", "no"])
def alerts(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def auto_service(alerts: str, deployments: Deployments, tmp_path: Path) -> Iterator[Service]:
    """A service that chose its scanner, with a clamd that reports exceeded limits or does not."""
    with (
        running_clamd(tmp_path, {"AlertExceedsMax": alerts}) as clamd,
        running_service(deployments.fresh("sqlite-local"), SCANNER="auto", CLAMD=clamd.address) as service,
    ):
        yield service


def test_auto_chooses_clamd_with_and_without_limit_alerts(auto_service: Service) -> None:
    log = auto_service.log.read_text()
    scanner = scanner_of(auto_service)
    assert (scanner["name"], scanner["state"], scanner["detail"]) == ("clamd", "up", "")
    assert recorded_engine(auto_service).split()[0] == "clamd"
    assert "scanner=clamd" in log or '"scanner": "clamd"' in log


def test_auto_does_not_choose_a_clamd_that_opens_no_archives(deployments: Deployments, tmp_path: Path) -> None:
    with (
        running_clamd(tmp_path, {"ScanArchive": "no"}) as clamd,
        running_service(deployments.fresh("sqlite-local"), SCANNER="auto", CLAMD=clamd.address) as service,
    ):
        assert scanner_of(service)["name"] == "builtin"
        assert "does not find the EICAR test virus inside a zip" in service.log.read_text()


def test_auto_without_clamd_chooses_builtin_rules(deployments: Deployments, tmp_path: Path) -> None:
    with running_service(
        deployments.fresh("sqlite-local"), SCANNER="auto", CLAMD=f"unix:{tmp_path}/none.sock"
    ) as service:
        scanner = scanner_of(service)
        assert scanner["name"] == "builtin"
        assert "not an antivirus" in scanner["detail"]
        assert recorded_engine(service) == "builtin"
        assert "no antivirus" in service.log.read_text()
