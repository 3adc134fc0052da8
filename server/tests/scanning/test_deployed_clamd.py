"""The deployed clamd.conf in a real clamd: contexts of 500 MB are accepted and doctor reports no problem."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.responses import assert_rejected
from tests.cli.commands import Sluice
from tests.deployments import Deployments
from tests.inspection.threats.packed_files import EICAR
from tests.servers.clamd import running_clamd
from tests.service import ApiClient, running_service

CONF = Path(__file__).parents[3] / "deploy" / "clamd.conf"
MACHINE_OPTIONS = {"User", "LogSyslog", "LocalSocketGroup", "DatabaseDirectory", "LocalSocket"}
LARGEST_MB = 500


def deployed_options() -> dict[str, str]:
    """Return the options of the file, without those that depend on the machine."""
    lines = (line.strip() for line in CONF.read_text(encoding="utf-8").splitlines())
    options = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert set(options) > MACHINE_OPTIONS
    return {name: value for name, value in options.items() if name not in MACHINE_OPTIONS}


@pytest.fixture(scope="module")
def deployed_gate(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    folder, deployment = tmp_path_factory.mktemp("clamd"), deployments.fresh("sqlite-local")
    with (
        running_clamd(folder, {"TCPAddr": "127.0.0.1"}, base=deployed_options()) as clamd,
        running_service(deployment, SCANNER="clamd", CLAMD=clamd.address) as service,
    ):
        yield service.new_client()


def test_doctor_reports_no_problem_and_a_500_mb_scan_limit(deployed_gate: ApiClient) -> None:
    deployed_gate.create_context(max_file_size_mb=LARGEST_MB)
    service = deployed_gate.service
    settings = {name.removeprefix("SLUICE_"): value for name, value in service.environment.items() if "SLUICE_" in name}
    report = Sluice(service.deployment.folder, settings)("doctor", "--json").json
    scanner = next(engine for engine in report["engines"] if engine["kind"] == "scanner")
    assert (scanner["name"], scanner["state"], scanner["detail"]) == ("clamd", "up", "")
    assert scanner["limits"]["scanned_bytes"] == LARGEST_MB * 2**20


def test_clean_file_is_stored_and_virus_is_rejected(deployed_gate: ApiClient) -> None:
    context = deployed_gate.create_context(max_file_size_mb=LARGEST_MB, reject_corrupt_files=False)
    deployed_gate.store(context=context)
    assert_rejected(deployed_gate.upload("a.bin", bytes(20 * 2**20) + EICAR, context=context), "virus_detected")
