"""The cache of clean verdicts as the service uses it: what the decision log says of a hit, across processes, and with its Redis away."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.answers import rejected
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.gate import Gate, running_service
from tests.servers.redis import running_redis
from tests.threats.packing import EICAR


def scans(gate: Gate) -> list[dict[str, Any]]:
    """Answer the scan of each decision."""
    return [decision["facts"]["scanned"] for decision in gate.decisions()]


def test_a_second_upload_of_the_same_bytes_is_recorded_as_answered_from_the_cache(gate: Gate) -> None:
    context = gate.context()
    content = TEXT + gate.tenant_id.encode()
    for name in ("a.txt", "b.txt"):
        gate.store(name, content, context=context)
    first, second = scans(gate)
    if first["signatures"]:  # the production setup's clamd has a database without a number: nothing may be kept of it
        assert [scan["cached"] for scan in (first, second)] == [False, True]
    else:
        assert [scan["cached"] for scan in (first, second)] == [False, False]
    for field in ("outcome", "engine", "signatures"):
        assert first[field] == second[field]


def test_a_virus_is_found_again_and_again(gate: Gate) -> None:
    context = gate.context(reject_corrupt_files=False)
    for _ in range(3):
        rejected(gate.upload("a.txt", EICAR, context=context), "virus_detected")
    assert [(scan["outcome"], scan["cached"]) for scan in scans(gate)] == [("infected", False)] * 3


@pytest.fixture
def redis_url(tmp_path: Path, ends: ExitStack) -> str:
    return ends.enter_context(running_redis(tmp_path / "redis")).url


@pytest.fixture
def ends() -> Any:
    with ExitStack() as stack:
        yield stack


def test_two_processes_share_their_verdicts_and_do_without_when_redis_ends(places: Places, redis_url: str, ends: ExitStack) -> None:
    place = places.fresh("sqlite-local")
    with running_service(place, REDIS_URL=redis_url) as one, running_service(place, REDIS_URL=redis_url) as other:
        gate = one.new_gate()
        context = gate.context()
        gate.store("a.txt", TEXT, context=context)
        elsewhere = Gate(other, gate.tenant_id, gate.authorization)
        elsewhere.store("b.txt", TEXT, context=context)
        ends.close()
        for number in range(3):
            elsewhere.store(f"c{number}.txt", TEXT, context=context)
        assert [scan["cached"] for scan in scans(gate)] == [False, True, False, False, False]
        ready = other.http.get("/health/ready")
        scanner = next(engine for engine in ready.json()["engines"] if engine["kind"] == "scanner")
        assert (ready.status_code, scanner["state"]) == (200, "degraded")
        assert "the cache of verdicts is away" in scanner["detail"]
