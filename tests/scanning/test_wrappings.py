"""The test virus in every wrapping through the whole service, with a real clamd and with Sluice's own rules alone; and ClamAV's own test files."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.api.answers import rejected
from tests.api.places import Places
from tests.gate import Gate, Service, running_service
from tests.servers import missing
from tests.servers.clamd import running_clamd
from tests.threats.packing import EICAR
from tests.threats.wrappings import TWELVE, UNSEEN

TESTFILES = Path("/usr/share/clamav-testfiles")


@pytest.fixture(scope="module", params=["builtin", "clamd"])
def scanner(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def scanning(scanner: str, places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place = places.fresh("sqlite-local")
    with ExitStack() as ends:
        settings = {"SCANNER": scanner}
        if scanner == "clamd":
            settings["CLAMD"] = ends.enter_context(running_clamd(tmp_path_factory.mktemp("scanning"))).address
        yield ends.enter_context(running_service(place, **settings))


@pytest.fixture
def gate(scanning: Service) -> Gate:
    return scanning.new_gate()


def open_context(gate: Gate) -> str:
    """Make a context that takes any file to which no scanner objects."""
    return gate.context(reject_corrupt_files=False, reject_blank_files=False)


@pytest.mark.parametrize("name", TWELVE)
def test_the_test_virus_is_found_in_every_wrapping(gate: Gate, name: str) -> None:
    filename, wrap = TWELVE[name]
    rejected(gate.upload(filename, wrap(EICAR), context=open_context(gate)), "virus_detected")


@pytest.mark.parametrize("name", UNSEEN)
def test_the_test_virus_is_found_where_clamd_alone_sees_nothing(gate: Gate, name: str) -> None:
    rejected(gate.upload("file.bin", UNSEEN[name](EICAR), context=open_context(gate)), "virus_detected")


@pytest.mark.parametrize("path", sorted(TESTFILES.glob("clam*")) or [TESTFILES / "clam.zip"], ids=lambda path: path.name)
def test_every_test_file_of_clamav_is_judged(gate: Gate, scanner: str, path: Path) -> None:
    if not path.is_file():
        missing(path.name, apt="clamav-testfiles")
    answer = gate.upload(path.name, path.read_bytes(), context=open_context(gate))
    if path.name == "clam_cache_emax.tgz":  # packed more often than anybody looks into
        rejected(answer, "scan_incomplete")
    elif scanner == "clamd":
        rejected(answer, "virus_detected")
    else:
        assert answer.status_code in {201, 400}
    assert gate.decisions()[-1]["facts"]["scanned"]["engine"].startswith(scanner)
