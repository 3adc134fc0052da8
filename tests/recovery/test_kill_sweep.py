"""kill -9 at every step of the commit protocol, on all four of {SQLite, PostgreSQL} × {local, S3}; see `sweep` for what must hold.

The short form dies once at every point, the four places taking turns. `make kill-sweep KILLS=n` dies n times at every point of every place.
"""

import itertools
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.kit.failpoints import POINTS
from tests.gate import Place
from tests.length import amount
from tests.recovery.sweep import Sweep
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway

PLACES = ("sqlite-local", "sqlite-s3", "postgres-local", "postgres-s3")
KILLS = amount("KILLS", short=0, whole=9)
"""Kills at each point of each place; 0 is the short form."""
# these leave what the points that settle have to do with
_LEAVES_A_LEASE = "store.done"
_AUDITED = ("deed.", "answer.")
"""What every change by a caller comes to, the first context too: these are in `test_audited`."""


def points_of(place: str) -> Sequence[str]:
    """Answer the points that work comes to there, in an order in which each finds its work."""
    elsewhere = (*_AUDITED, "local." if place.endswith("s3") else "parts.", "unit." if place.startswith("postgres") else "-")
    return [point for point in POINTS if not point.startswith(elsewhere)]


def rounds(place: str) -> Sequence[str]:
    points = points_of(place)
    if KILLS:
        return list(itertools.chain.from_iterable([points] * KILLS))
    turn = PLACES.index(place)
    rest = [point for point in POINTS if not point.startswith(("local.", "parts.", "unit.", *_AUDITED))]
    own = {"sqlite-local": ["unit.open", "local.drafted", "local.linked"], "postgres-s3": ["parts.read"]}
    return own.get(place, []) + rest[turn :: len(PLACES)]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, where: str) -> Place:
    database, store = where.split("-")
    settings = {"SCANNER": "builtin"}
    if database == "sqlite":
        url = f"sqlite:///{tmp_path / 'data' / 'sluice.db'}"
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.createdb().replace("+asyncpg", "")
    if store == "local":
        return Place(where, tmp_path, url, settings)
    gateway: RadosGateway = request.getfixturevalue("gateway")
    settings["BUCKET_ENDPOINT_HOSTS"] = gateway.endpoint.removeprefix("http://")
    return Place(where, tmp_path, url, settings, gateway, gateway.create_bucket(f"test-{secrets.token_hex(8)}"))


@pytest.mark.timeout(60 + 40 * len(POINTS) * max(1, KILLS))
@pytest.mark.parametrize("where", PLACES)
def test_nothing_acknowledged_is_lost_and_nothing_else_is_left(
    place: Place, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = Sweep(place, seed=int(os.environ.get("SLUICE_TEST_SEED", "1")))
    for point in rounds(where):
        if point.startswith("settle"):
            sweep.kill_at(_LEAVES_A_LEASE)
        sweep.kill_at(point)
    sweep.end()
    with capsys.disabled():
        kept = len(sweep.promises.kept)
        print(f"\n{where}: {sweep.kills.total()} kills at {len(sweep.kills)} points, {kept} files kept, 0 violations")  # noqa: T201
    assert set(sweep.kills) >= set(rounds(where))
