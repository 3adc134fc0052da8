"""A service whose antivirus is behind ICAP, beside Sluice's own rules: what it says decides, and its absence is seen."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.api.responses import assert_rejected, data
from tests.deployments import Deployments
from tests.inspection.threats.containers import MISSED_BY_CLAMD, REQUIRED_CONTAINERS
from tests.inspection.threats.packed_files import EICAR
from tests.observe.metrics_page import read_metrics
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.servers import free_port
from tests.servers.c_icap import CIcap, running_c_icap
from tests.servers.clamd import running_clamd
from tests.service import ApiClient, Service, running_service

ONLY_CLAMD_KNOWS = b"bytes that only the signature of clamd finds, no. 7"
SIGNATURE = f"Only-Clamd-Knows:0:*:{ONLY_CLAMD_KNOWS.hex()}\n"


@dataclass(frozen=True)
class Scene:
    service: Service
    client: ApiClient
    server: ExitStack
    """What runs the ICAP server; closed, it is away."""
    start: Callable[[], CIcap]


@pytest.fixture(scope="module")
def scene(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ExitStack() as ends:
        clamd = ends.enter_context(running_clamd(tmp_path_factory.mktemp("clamd"), signatures={"own.ndb": SIGNATURE}))
        folder, port, server = tmp_path_factory.mktemp("c-icap"), free_port(), ends.enter_context(ExitStack())

        def start() -> CIcap:
            return server.enter_context(running_c_icap(folder, clamd_port=clamd.port, port=port))

        icap = f"av={start().address()},second=icap://127.0.0.1:1/av"
        settings = {"SCANNER": "icap:av,icap:second", "ICAP": icap, "SCANNER_OPTIONAL": "icap:second"}
        service = ends.enter_context(running_service(deployments.fresh("sqlite-local"), **settings))
        yield Scene(service, service.new_client(), server, start)


@pytest.fixture(scope="module")
def context(scene: Scene) -> str:
    """A context that accepts any file in which the scanners find nothing."""
    return scene.client.create_context(reject_corrupt_files=False, reject_blank_files=False)


@each_row("name", [*REQUIRED_CONTAINERS, *MISSED_BY_CLAMD])
def test_virus_is_rejected_in_every_wrapping(scene: Scene, context: str, name: str) -> None:
    filename, wrap = REQUIRED_CONTAINERS.get(name) or ("file.bin", MISSED_BY_CLAMD[name])
    assert_rejected(scene.client.upload(filename, wrap(EICAR), context=context), "virus_detected")


def test_report_says_what_each_engine_said_and_health_how_each_is(scene: Scene, context: str) -> None:
    client = scene.client
    assert_rejected(client.upload("a.txt", ONLY_CLAMD_KNOWS, context=context), "virus_detected")
    assert client.upload("b.txt", b"harmless words", context=context).status_code == 201
    infected, clean = (data(client.get(f"/reports/{row['report_id']}"))["scanners"] for row in client.decisions()[-2:])
    assert [(one["engine"], one["outcome"], one["required"]) for one in infected] == [
        ("builtin", "clean", True),
        ("icap:av", "infected", True),
        ("icap:second", "unavailable", False),
    ]
    assert infected[1]["signatures"].startswith("CI0001-")
    assert [one["outcome"] for one in clean] == ["clean", "clean", "unavailable"]
    engines = {one["name"]: one for one in scene.service.ready().json()["engines"] if one["kind"] == "scanner"}
    assert {name: one["state"] for name, one in engines.items()} == {
        "builtin": "up",
        "icap:av": "up",
        "icap:second": "degraded",
    }
    assert engines["icap:second"]["detail"] == "optional; no connection: Connection refused"
    metrics = read_metrics(scene.service.url)
    for name, outcome in (("icap:av", "infected"), ("builtin", "clean"), ("icap:second", "unavailable")):
        assert metrics("sluice_engine_results_total", engine=name, outcome=outcome) >= 1, (name, outcome)
    assert metrics("sluice_engine_scan_seconds_count", engine="icap:av") >= 2


def test_upload_is_503_while_a_required_engine_is_away_and_recovers(scene: Scene, context: str) -> None:
    client, number = scene.client, iter(range(1000))

    def upload() -> int:
        return client.upload("c.txt", b"words %d" % next(number), context=context).status_code

    assert upload() == 201
    scene.server.close()
    response = client.upload("c.txt", b"other words", context=context)
    assert (response.status_code, response.headers["retry-after"].isdecimal()) == (503, True)
    assert client.upload("virus.txt", EICAR, context=context).status_code == 400, "a threat that another engine found"
    scene.start()
    assert until(lambda: upload() == 201)
