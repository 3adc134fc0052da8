"""The clamd.conf that is handed out, in a real clamd: the service takes contexts of 500 MB with it and has nothing to complain of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.answers import rejected
from tests.api.places import Places
from tests.cli.commands import Sluice
from tests.gate import Gate, running_service
from tests.servers.clamd import running_clamd
from tests.threats.packing import EICAR

CONF = Path(__file__).parents[2] / "deploy" / "clamd.conf"
OF_A_MACHINE = {"User", "LogSyslog", "LocalSocketGroup", "DatabaseDirectory", "LocalSocket"}
LARGEST_MB = 500


def deployed() -> dict[str, str]:
    """Answer what the file sets, without what belongs to a machine."""
    lines = (line.strip() for line in CONF.read_text(encoding="utf-8").splitlines())
    options = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert set(options) > OF_A_MACHINE
    return {name: value for name, value in options.items() if name not in OF_A_MACHINE}


@pytest.fixture(scope="module")
def at_deployed(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    with (
        running_clamd(tmp_path_factory.mktemp("clamd"), {"TCPAddr": "127.0.0.1"}, base=deployed()) as clamd,
        running_service(places.fresh("sqlite-local"), SCANNER="clamd", CLAMD=clamd.address) as service,
    ):
        yield service.new_gate()


def test_doctor_finds_all_of_500_mb_scanned_and_nothing_to_complain_of(at_deployed: Gate) -> None:
    at_deployed.context(max_file_size_mb=LARGEST_MB)
    service = at_deployed.service
    settings = {name.removeprefix("SLUICE_"): value for name, value in service.environment.items() if "SLUICE_" in name}
    said = Sluice(service.place.folder, settings)("doctor", "--json").json
    scanner = next(engine for engine in said["engines"] if engine["kind"] == "scanner")
    assert (scanner["name"], scanner["state"], scanner["detail"]) == ("clamd", "up", "")
    assert scanner["limits"]["scanned_bytes"] == LARGEST_MB * 2**20


def test_what_it_scans_is_taken_and_what_it_finds_is_not(at_deployed: Gate) -> None:
    context = at_deployed.context(max_file_size_mb=LARGEST_MB, reject_corrupt_files=False)
    at_deployed.store(context=context)
    rejected(at_deployed.upload("a.bin", bytes(20 * 2**20) + EICAR, context=context), "virus_detected")
