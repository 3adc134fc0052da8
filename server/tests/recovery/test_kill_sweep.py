"""kill -9 at every failpoint, on {SQLite, PostgreSQL} × {local, S3}; `sweep` does the work and checks what is left.

Files are scanned by YARA rules, compared with a hash list and judged by an external check. The short form dies once at
every failpoint of files, the two setups of the contract tests taking turns, and checks after four kills. `make kill-sweep
KILLS=n` dies n times at every failpoint of every place, scans with clamd and ICAP too, proves webhooks, jobs, holds,
previews and imports besides, and checks after three kills.
`SLUICE_TEST_PLACES=sqlite-azure` chooses the places, also one whose platform's store is a container of Azure, or a bucket
of Google (`sqlite-gcs`; `sqlite-gcshmac` by an HMAC key).
"""

import itertools
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluice.kit.failpoints import POINTS
from tests.events.receiver import Received, Receiver, running_receiver
from tests.recovery.sweep.files import LURE
from tests.recovery.sweep.sweep import Sweep
from tests.run_length import amount
from tests.scanning.members import IcapMember, running_members
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs
from tests.servers.google_xml import GoogleXml, running_google_xml
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.servers.threads import in_a_thread
from tests.service import Deployment

KILLS = amount("KILLS", short=0, full=9)
"""Kills at each point of each place; 0 is the short form."""
_ALL = "sqlite-local,sqlite-s3,postgres-local,postgres-s3" if KILLS else "sqlite-local,postgres-s3"
PLACES: Sequence[str] = os.environ.get("SLUICE_TEST_PLACES", _ALL).split(",")
DEPTH = 4 if KILLS else 2
CLIENTS = 3 if KILLS else 2
KILLS_PER_CHECK = 3 if KILLS else 4
# leaves a lease for the failpoints of the lease cleanup
_LEAVES_A_LEASE = "store.done"
_PROVEN_ELSEWHERE = ("audit.", "response.", "webhook.", "job.", "erasure.", "export.", "preview.")
"""Failpoints that the short form leaves to `test_audit_log`, `test_webhook_kill`, `test_job_kill` and `test_previews`."""


def points_of(deployment: str) -> Sequence[str]:
    """Return the failpoints that are reached on this place, in an order in which each has work."""
    of_store = "parts." if deployment.endswith("local") else "local."
    of_database = "unit." if deployment.startswith("postgres") else "-"
    return [point for point in POINTS if not point.startswith((of_store, of_database))]


def rounds(deployment: str) -> Sequence[str]:
    points = points_of(deployment)
    if KILLS:
        return list(itertools.chain.from_iterable([points] * KILLS))
    turn = PLACES.index(deployment)
    rest = [point for point in POINTS if not point.startswith(("local.", "parts.", "unit.", *_PROVEN_ELSEWHERE))]
    own = {"sqlite-local": ["unit.open", "local.drafted", "local.linked"], "postgres-s3": ["parts.read"]}
    return own.get(deployment, []) + rest[turn :: len(PLACES)]


def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
    """Answer a question of the external check."""
    verdict = "reject" if json.loads(request.body)["name"].startswith("rejected") else "accept"
    return 200, {}, json.dumps({"verdict": verdict}).encode()


@pytest.fixture
def check() -> Iterator[Receiver]:
    with running_receiver() as running:
        running.respond = answer
        yield running


@pytest.fixture
def hooks() -> Iterator[Receiver]:
    """The receiver of webhooks."""
    with running_receiver() as running:
        yield running


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """The settings of the engines."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "lure.yar").write_text(f'rule Lure {{ strings: $a = "{LURE.decode()}" condition: $a }}')
    settings = {"SCANNER": "builtin,yara", "YARA_RULES": str(rules), "WEBHOOK_HOSTS": "127.0.0.1"}
    if not KILLS:
        yield settings
        return
    with running_members(tmp_path, 2) as (clamd, behind), ExitStack() as ends:
        icap = IcapMember(tmp_path / "c-icap", behind)
        ends.callback(icap.kill)
        icap.start()
        yield settings | {
            "SCANNER": "clamd,icap:av,yara",
            "CLAMD": clamd.address,
            "ICAP": f"av={icap.address}",
        }


@pytest.fixture
def google_xml() -> Iterator[GoogleXml]:
    with in_a_thread(running_google_xml()) as running:
        yield running


@pytest.fixture
def deployment(request: pytest.FixtureRequest, tmp_path: Path, where: str, engines: Mapping[str, str]) -> Deployment:
    database, store = where.split("-")
    settings = dict(engines)
    if database == "sqlite":
        url = f"sqlite:///{tmp_path / 'data' / 'sluice.db'}"
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.createdb().replace("+asyncpg", "")
    if store == "local":
        return Deployment(where, tmp_path, url, settings)
    if store == "azure":
        azurite: Azurite = request.getfixturevalue("azurite")
        return Deployment(where, tmp_path, url, settings | azurite.platform_settings())
    if store == "gcs":
        gcs: FakeGcs = request.getfixturevalue("gcs")
        return Deployment(where, tmp_path, url, settings | gcs.platform_settings())
    if store == "gcshmac":
        google: GoogleXml = request.getfixturevalue("google_xml")
        return Deployment(where, tmp_path, url, settings | google.platform_settings())
    gateway: RadosGateway = request.getfixturevalue("gateway")
    settings["BUCKET_ENDPOINT_HOSTS"] = gateway.endpoint.removeprefix("http://")
    return Deployment(where, tmp_path, url, settings, gateway, gateway.create_bucket(f"test-{secrets.token_hex(8)}"))


@pytest.mark.timeout(60 + 40 * len(POINTS) * max(1, KILLS))
@pytest.mark.parametrize("where", PLACES)
def test_after_kills_no_acknowledged_file_is_lost_and_no_leftover_stays(
    deployment: Deployment, where: str, check: Receiver, hooks: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("SLUICE_TEST_SEED", "1"))
    fields = {"external_checks": [{"name": "policy", "url": check.url}]}
    sweep = Sweep(
        deployment,
        seed,
        clients=CLIENTS,
        kills_per_check=KILLS_PER_CHECK,
        receiver=hooks if KILLS else None,
        context_fields=fields,
    )
    began = time.monotonic()
    sweep.begin()
    for point in rounds(where):
        if point.startswith("settle"):
            sweep.kill_at(_LEAVES_A_LEASE, depth=DEPTH)
        sweep.kill_at(point, depth=DEPTH)
    sweep.end()
    with capsys.disabled():
        print(f"\n{where}: {sweep.summary(time.monotonic() - began)}")  # noqa: T201
    assert set(sweep.kills) >= set(rounds(where))
