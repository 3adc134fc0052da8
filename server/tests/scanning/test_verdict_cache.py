"""The verdict cache in the service: cache hits in the decision log, sharing between processes, Redis outages."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.api.responses import assert_rejected
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.inspection.threats.packed_files import EICAR
from tests.servers.redis import running_redis
from tests.service import ApiClient, running_service

SAME = ("outcome", "engine", "signatures")


def scans(client: ApiClient) -> list[dict[str, Any]]:
    """Return the scan of each decision."""
    return [decision["facts"]["scanned"] for decision in client.decisions()]


def test_second_upload_of_same_bytes_is_recorded_as_cached(client: ApiClient) -> None:
    context = client.create_context()
    content = TEXT + client.tenant_id.encode()
    for name in ("a.txt", "b.txt"):
        client.store(name, content, context=context)
    first, second = scans(client)
    # the clamd of the production setup has an unnumbered database: nothing is cached
    assert (first["cached"], second["cached"]) == (False, bool(first["signatures"]))
    assert [first[field] for field in SAME] == [second[field] for field in SAME]


def test_virus_verdict_is_never_cached(client: ApiClient) -> None:
    context = client.create_context(reject_corrupt_files=False)
    for name in ("a.txt", "b.txt", "c.txt"):  # under the same name, the rejection itself would be repeated
        assert_rejected(client.upload(name, EICAR, context=context), "virus_detected")
    assert [(scan["outcome"], scan["cached"]) for scan in scans(client)] == [("infected", False)] * 3


def test_processes_share_verdicts_and_continue_without_redis(deployments: Deployments, tmp_path: Path) -> None:
    deployment = deployments.fresh("sqlite-local")
    with ExitStack() as stack, ExitStack() as ends:
        url = ends.enter_context(running_redis(tmp_path / "redis")).url
        one, other = (stack.enter_context(running_service(deployment, REDIS_URL=url)) for _ in range(2))
        client = one.new_client()
        context = client.create_context()
        client.store("a.txt", TEXT, context=context)
        other_gate = ApiClient(other, client.tenant_id, client.authorization)
        other_gate.store("b.txt", TEXT, context=context)
        ends.close()
        for number in range(3):
            other_gate.store(f"c{number}.txt", TEXT, context=context)
        assert [scan["cached"] for scan in scans(client)] == [False, True, False, False, False]
        ready = other.ready()
        scanner = next(engine for engine in ready.json()["engines"] if engine["kind"] == "scanner")
        assert (ready.status_code, scanner["state"]) == (200, "degraded")
        assert "the verdict cache is unavailable" in scanner["detail"]
