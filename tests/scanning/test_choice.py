"""Which scanner the service takes with `SLUICE_SCANNER=auto`, and that log, health page and record name it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.places import Places
from tests.gate import Service, running_service
from tests.servers.clamd import running_clamd


def scanner_of(service: Service) -> dict[str, Any]:
    """Answer what the health page says of the scanner."""
    engines = service.http.get("/health/ready").json()["engines"]
    scanner: dict[str, Any] = next(engine for engine in engines if engine["kind"] == "scanner")
    return scanner


def recorded(service: Service) -> str:
    """Upload a file and answer which engine its decision names."""
    gate = service.new_gate()
    gate.store(context=gate.context())
    engine: str = gate.decisions()[-1]["facts"]["scanned"]["engine"]
    return engine


@pytest.fixture(params=["yes", "no"])
def tells(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def automatic(tells: str, places: Places, tmp_path: Path) -> Iterator[Service]:
    """A service that chose by itself, where a clamd tells what it skips, or does not."""
    with (
        running_clamd(tmp_path, {"AlertExceedsMax": tells}) as clamd,
        running_service(places.fresh("sqlite-local"), SCANNER="auto", CLAMD=clamd.address) as service,
    ):
        yield service


def test_a_clamd_is_taken_where_it_tells_what_it_skips(automatic: Service, tells: str) -> None:
    taken = "clamd" if tells == "yes" else "builtin"
    log = automatic.log.read_text()
    assert scanner_of(automatic)["name"] == taken
    assert recorded(automatic).split()[0] == taken
    assert f"scanner={taken}" in log or f'"scanner": "{taken}"' in log
    assert ("set AlertExceedsMax yes" in log) == (tells == "no")


def test_without_a_clamd_the_rules_are_taken_and_never_called_an_antivirus(places: Places, tmp_path: Path) -> None:
    with running_service(places.fresh("sqlite-local"), SCANNER="auto", CLAMD=f"unix:{tmp_path}/none.sock") as service:
        scanner = scanner_of(service)
        assert scanner["name"] == "builtin"
        assert "not an antivirus" in scanner["detail"]
        assert recorded(service) == "builtin"
        assert "no antivirus" in service.log.read_text()
