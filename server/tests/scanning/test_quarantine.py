"""Rescans of stored files after new signatures: quarantine, release, and the records of both."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.api.responses import assert_not_found, data, page
from tests.cli.commands import CommandResult, Sluice
from tests.deployments import Deployments
from tests.scanner.faulty_clamd import Fault, FaultyClamd, responds_after_bytes
from tests.scanning.faulty_daemon import BAD_PHRASE, daemon_in_thread, finds_bad_phrase, finds_nothing
from tests.scanning.waiting import until
from tests.scheduling import SETUPS
from tests.service import ApiClient, Deployment, Service, running_service

pytestmark = pytest.mark.engine

_versions = itertools.count(27501)


@dataclass(frozen=True)
class Scene:
    """A new tenant of a service, and the clamd of the service."""

    client: ApiClient
    daemon: FaultyClamd

    def new_signatures(self, fault: Fault = finds_bad_phrase) -> str:
        """Make the daemon report another signature version and respond with `fault`."""
        version = str(next(_versions))
        self.daemon.fault, self.daemon.version = fault, f"ClamAV 1.4.6/{version}/Mon Jan  5 09:00:00 2026".encode()
        return version

    def rescans(self) -> list[dict[str, Any]]:
        return [row for row in self.client.decisions() if row["mode"] == "rescan"]

    def wait_for_rescans(self, count: int) -> list[dict[str, Any]]:
        assert until(lambda: len(self.rescans()) >= count)
        return self.rescans()

    def command(self, *words: str) -> CommandResult:
        """Run `sluice quarantine` for the service."""
        deployment = self.client.service.deployment
        settings = {"DATA_DIR": str(deployment.data_dir), "DATABASE_URL": deployment.database_url}
        return Sluice(deployment.folder, settings)("quarantine", *words, "--local")

    def log(self) -> str:
        return self.client.service.log.read_text()


@pytest.fixture(scope="module")
def running(service_place: Deployment) -> Iterator[tuple[Service, FaultyClamd]]:
    with (
        daemon_in_thread(finds_nothing) as daemon,
        running_service(
            service_place, SCANNER="clamd", CLAMD=daemon.address, RESCAN_PER_SECOND="1000", WORKER_SECONDS="0.5"
        ) as service,
    ):
        yield service, daemon


@pytest.fixture(scope="module")
def service_place(deployments: Deployments, request: pytest.FixtureRequest) -> Deployment:
    return deployments.fresh(getattr(request, "param", SETUPS[0]))


@pytest.fixture
def scene(running: tuple[Service, FaultyClamd]) -> Scene:
    service, daemon = running
    daemon.fault = finds_nothing
    return Scene(service.new_client().with_store(), daemon)


@pytest.mark.parametrize("service_place", SETUPS, indirect=True)
def test_stored_file_is_quarantined_when_new_signatures_match(scene: Scene) -> None:
    client, context = scene.client, scene.client.create_context()
    bad = client.store("bad.txt", BAD_PHRASE, context=context)
    good = client.store("good.txt", b"harmless words", context=context)
    link = data(client.get(f"/files/{bad}"))["download_url"]
    before, used, objects = data(client.get(f"/files/{bad}/metadata")), client.used_bytes(context), client.object_keys()
    scene.new_signatures()
    scene.wait_for_rescans(2)
    assert_not_found(client.get(f"/files/{bad}"))
    if client.service.deployment.gateway is None:  # a presigned link works until it expires
        assert httpx.get(link).status_code == 404
        assert httpx.head(link).status_code == 404
    assert data(client.get(f"/files/{bad}/metadata")) == before
    assert {one["file_id"] for one in page(client.get("/files"))[0]} == {bad, good}
    assert (client.used_bytes(context), client.object_keys()) == (used, objects)
    assert httpx.get(data(client.get(f"/files/{good}"))["download_url"]).content == b"harmless words"
    assert data(client.delete(f"/files/{bad}"))["deleted"] is True
    assert_not_found(client.get(f"/files/{bad}/metadata"))


@pytest.mark.parametrize("service_place", SETUPS, indirect=True)
def test_operator_lists_and_releases_quarantined_files(scene: Scene) -> None:
    client, context = scene.client, scene.client.create_context()
    wrong, right = (client.store(f"{name}.txt", BAD_PHRASE, context=context) for name in ("wrong", "right"))
    client.store("good.txt", b"harmless words", context=context)
    version = scene.new_signatures()
    scene.wait_for_rescans(3)
    listed = {row["file_id"]: row for row in scene.command("list", "--tenant", client.tenant_id, "--json").rows}
    assert set(listed) == {wrong, right}
    assert (listed[wrong]["threat"], listed[wrong]["original_filename"]) == ("Bad.Phrase", "wrong.txt")
    assert listed[wrong]["scanned_with"].startswith(f"clamd 1.4.6/{version}")
    assert listed[wrong]["quarantined_at"].endswith("Z")
    assert "Bad.Phrase" in scene.command("list").out
    assert scene.command("release", wrong, "--comment", "a false alarm").code == 0
    assert httpx.get(data(client.get(f"/files/{wrong}"))["download_url"]).content == BAD_PHRASE
    assert_not_found(client.get(f"/files/{right}"))
    assert [row["file_id"] for row in scene.command("list", "--tenant", client.tenant_id, "--json").rows] == [right]
    (event,) = page(client.get("/audit", action="file.released"))[0]
    assert (event["target"], event["via"], event["outcome"]) == (wrong, "command", "done")


def test_released_file_is_quarantined_again_only_for_another_threat(scene: Scene) -> None:
    stored = scene.client.store("bad.txt", BAD_PHRASE, context=scene.client.create_context())
    scene.new_signatures()
    scene.wait_for_rescans(1)
    scene.command("release", stored, "--comment", "a false alarm")
    scene.new_signatures()
    again = scene.wait_for_rescans(2)[-1]
    assert (again["outcome"], again["reason"]) == ("kept", "virus_detected")
    assert data(scene.client.get(f"/files/{stored}"))
    scene.new_signatures(responds_after_bytes(b"stream: Other.Phrase FOUND\0"))
    assert scene.wait_for_rescans(3)[-1]["outcome"] == "quarantined"
    assert_not_found(scene.client.get(f"/files/{stored}"))


def test_release_refuses_file_that_is_not_quarantined(scene: Scene) -> None:
    stored = scene.client.store("a.txt", b"words", context=scene.client.create_context())
    for file_id in (stored, "file_of_nobody"):
        ended = scene.command("release", file_id, "--comment", "a false alarm")
        assert ended.code == 5
        assert f"No file {file_id} is in quarantine" in ended.error_line


def test_decision_log_records_each_rescan(scene: Scene) -> None:
    context = scene.client.create_context()
    bad = scene.client.store("bad.txt", BAD_PHRASE, context=context)
    scene.client.store("good.txt", b"harmless words", context=context)
    version = scene.new_signatures()
    rows = {row["file_id"]: row for row in scene.wait_for_rescans(2)}
    found = rows.pop(bad)
    (kept,) = rows.values()
    assert (found["outcome"], found["reason"], found["detail"]) == ("quarantined", "virus_detected", "found Bad.Phrase")
    assert (kept["outcome"], kept["reason"]) == ("kept", None)
    for row, outcome in ((found, "infected"), (kept, "clean")):
        scan = row["facts"]["scanned"]
        assert (scan["outcome"], scan["engine"], scan["signatures"]) == (outcome, "clamd 1.4.6", version)
        assert scan["ms"] > 0
        assert row["actor"]["via"] == "worker"
    assert "quarantined" in scene.log()


def test_each_file_is_rescanned_once_per_engine_version(scene: Scene) -> None:
    context = scene.client.create_context()
    stored = {scene.client.store(f"{number}.txt", b"words %d" % number, context=context) for number in range(12)}
    scene.new_signatures()
    rows = scene.wait_for_rescans(12)
    new_file = scene.client.store("late.txt", b"words that came later", context=context)
    version_checks = scene.daemon.commands.count("VERSION")
    assert until(lambda: scene.daemon.commands.count("VERSION") > version_checks)
    assert sorted(row["file_id"] for row in scene.rescans()) == sorted(stored)
    assert new_file not in {row["file_id"] for row in rows}


def test_incomplete_rescan_keeps_file_and_is_logged_and_contexts_without_virus_scan_have_none(scene: Scene) -> None:
    stored = scene.client.store("a.txt", b"words", context=scene.client.create_context())
    unscanned = scene.client.store("bad.txt", BAD_PHRASE, context=scene.client.create_context(scan_for_viruses=False))
    scene.new_signatures(responds_after_bytes(b"stream: Heuristics.Limits.Exceeded.MaxScanTime FOUND\0"))
    (row,) = scene.wait_for_rescans(1)
    assert (row["file_id"], row["outcome"], row["reason"]) == (stored, "kept", "scan_incomplete")
    for file_id in (stored, unscanned):
        assert data(scene.client.get(f"/files/{file_id}"))
    assert "rescan_incomplete" in scene.log()


def test_rescan_of_changed_bytes_is_postponed(scene: Scene) -> None:
    client = scene.client
    client.store("a.txt", b"the words that were stored", context=client.create_context())
    (stored,) = client.object_keys()
    (client.service.deployment.data_dir / "objects" / "objects" / stored).write_bytes(b"other words")
    scene.new_signatures()
    assert until(lambda: "rescan_put_off" in scene.log())
    assert scene.rescans() == []
