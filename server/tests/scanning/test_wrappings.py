"""The EICAR virus in every wrapping and the ClamAV test files, through the service with each scanner."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.api.responses import assert_rejected
from tests.deployments import Deployments
from tests.inspection.threats.containers import MISSED_BY_CLAMD, REQUIRED_CONTAINERS
from tests.inspection.threats.packed_files import EICAR
from tests.required import missing
from tests.rows import each_row
from tests.run_length import LONG_RUN
from tests.servers.clamd import running_clamd
from tests.service import ApiClient, Service, running_service

TESTFILES = Path("/usr/share/clamav-testfiles")


@pytest.fixture(scope="module", params=["builtin", "clamd"])
def scanner(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def scanning_service(
    scanner: str, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    deployment = deployments.fresh("sqlite-local")
    with ExitStack() as ends:
        settings = {"SCANNER": scanner}
        if scanner == "clamd":
            settings["CLAMD"] = ends.enter_context(running_clamd(tmp_path_factory.mktemp("scanning"))).address
        yield ends.enter_context(running_service(deployment, **settings))


@pytest.fixture(scope="module")
def client(scanning_service: Service) -> ApiClient:
    return scanning_service.new_client()


@pytest.fixture(scope="module")
def context(client: ApiClient) -> str:
    """A context that accepts any file in which the scanner finds nothing."""
    return client.create_context(reject_corrupt_files=False, reject_blank_files=False)


@each_row("name", REQUIRED_CONTAINERS)
def test_virus_is_rejected_in_every_wrapping(client: ApiClient, context: str, name: str) -> None:
    filename, wrap = REQUIRED_CONTAINERS[name]
    assert_rejected(client.upload(filename, wrap(EICAR), context=context), "virus_detected")


@each_row("name", MISSED_BY_CLAMD)
def test_virus_is_rejected_in_wrappings_that_clamd_does_not_open(client: ApiClient, context: str, name: str) -> None:
    assert_rejected(client.upload("file.bin", MISSED_BY_CLAMD[name](EICAR), context=context), "virus_detected")


@each_row("path", sorted(TESTFILES.glob("clam*")) or [TESTFILES / "clam.zip"])
def test_clamav_test_file_is_judged(client: ApiClient, context: str, scanner: str, path: Path) -> None:
    if not path.is_file():
        missing(path.name, apt="clamav-testfiles")
    if scanner == "builtin" and not LONG_RUN and path.suffix not in {".tgz", ".pdf", ".zip"}:
        return  # most of them are programs in packings that only clamd opens
    response = client.upload(path.name, path.read_bytes(), context=context)
    if path.name == "clam_cache_emax.tgz":  # nested deeper than either scanner unpacks
        assert_rejected(response, "scan_incomplete")
    elif scanner == "clamd":
        assert_rejected(response, "virus_detected")
    else:
        assert response.status_code in {201, 400}
    assert client.decisions()[-1]["facts"]["scanned"]["engine"].startswith(scanner)
