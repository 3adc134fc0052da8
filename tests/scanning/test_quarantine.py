"""Stored files under new signatures: what becomes of one that is found, of the others, and what is told of it."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.api.answers import data, not_found, page
from tests.api.places import Places
from tests.cli.commands import Ended, Sluice
from tests.engines.scanner.faulty_clamd import Fault, FaultyClamd, hearing_out
from tests.gate import Gate, Place, Service, running_service
from tests.scanning.daemons import BAD, daemon_in_thread, finds_bad, finds_nothing
from tests.scanning.waiting import until
from tests.turns import SETUPS

_versions = itertools.count(27501)


@dataclass(frozen=True)
class Scene:
    """A fresh tenant of a service, and the clamd that the service asks."""

    gate: Gate
    daemon: FaultyClamd

    def new_signatures(self, fault: Fault = finds_bad) -> str:
        """Have the daemon load signatures of another version, and answer so from then on."""
        version = str(next(_versions))
        self.daemon.fault, self.daemon.version = fault, f"ClamAV 1.4.6/{version}/Mon Jan  5 09:00:00 2026".encode()
        return version

    def rescans(self) -> list[dict[str, Any]]:
        return [row for row in self.gate.decisions() if row["mode"] == "rescan"]

    def after_rescans(self, count: int) -> list[dict[str, Any]]:
        assert until(lambda: len(self.rescans()) >= count)
        return self.rescans()

    def command(self, *words: str) -> Ended:
        """Run `sluice quarantine` on the place of the service."""
        place = self.gate.service.place
        return Sluice(place.folder, {"DATA_DIR": str(place.data_dir), "DATABASE_URL": place.database_url})("quarantine", *words)

    def log(self) -> str:
        return self.gate.service.log.read_text()


@pytest.fixture(scope="module")
def running(service_place: Place) -> Iterator[tuple[Service, FaultyClamd]]:
    with (
        daemon_in_thread(finds_nothing) as daemon,
        running_service(service_place, SCANNER="clamd", CLAMD=daemon.address, RESCAN_PER_SECOND="1000") as service,
    ):
        yield service, daemon


@pytest.fixture(scope="module")
def service_place(places: Places, request: pytest.FixtureRequest) -> Place:
    return places.fresh(getattr(request, "param", SETUPS[0]))


@pytest.fixture
def scene(running: tuple[Service, FaultyClamd]) -> Scene:
    service, daemon = running
    daemon.fault = finds_nothing
    return Scene(service.new_gate().with_store(), daemon)


@pytest.mark.parametrize("service_place", SETUPS, indirect=True)
def test_a_stored_file_that_new_signatures_find_is_quarantined(scene: Scene) -> None:
    gate, context = scene.gate, scene.gate.context()
    bad, good = gate.store("bad.txt", BAD, context=context), gate.store("good.txt", b"harmless words", context=context)
    link = data(gate.get(f"/files/{bad}"))["download_url"]
    before, used, objects = data(gate.get(f"/files/{bad}/metadata")), gate.used(context), gate.objects()
    scene.new_signatures()
    scene.after_rescans(2)
    not_found(gate.get(f"/files/{bad}"))
    if gate.service.place.gateway is None:  # a link of a bucket's own lives until it expires
        assert httpx.get(link).status_code == 404
        assert httpx.head(link).status_code == 404
    assert data(gate.get(f"/files/{bad}/metadata")) == before
    assert {one["file_id"] for one in page(gate.get("/files"))[0]} == {bad, good}
    assert (gate.used(context), gate.objects()) == (used, objects)
    assert httpx.get(data(gate.get(f"/files/{good}"))["download_url"]).content == b"harmless words"
    assert data(gate.delete(f"/files/{bad}"))["deleted"] is True
    not_found(gate.get(f"/files/{bad}/metadata"))


@pytest.mark.parametrize("service_place", SETUPS, indirect=True)
def test_an_operator_lists_files_in_quarantine_and_releases_one(scene: Scene) -> None:
    gate, context = scene.gate, scene.gate.context()
    wrong, right = (gate.store(f"{name}.txt", BAD, context=context) for name in ("wrong", "right"))
    gate.store("good.txt", b"harmless words", context=context)
    version = scene.new_signatures()
    scene.after_rescans(3)
    listed = {row["file_id"]: row for row in scene.command("list", "--tenant", gate.tenant_id, "--json").rows}
    assert set(listed) == {wrong, right}
    assert (listed[wrong]["threat"], listed[wrong]["original_filename"]) == ("Bad.Phrase", "wrong.txt")
    assert listed[wrong]["scanned_with"].startswith(f"clamd 1.4.6/{version}")
    assert listed[wrong]["quarantined_at"].endswith("Z")
    assert "Bad.Phrase" in scene.command("list").out
    assert scene.command("release", wrong).code == 0
    assert httpx.get(data(gate.get(f"/files/{wrong}"))["download_url"]).content == BAD
    not_found(gate.get(f"/files/{right}"))
    assert [row["file_id"] for row in scene.command("list", "--tenant", gate.tenant_id, "--json").rows] == [right]
    (event,) = page(gate.get("/audit", action="file.released"))[0]
    assert (event["target"], event["via"], event["outcome"]) == (wrong, "command", "done")


def test_a_released_file_goes_back_for_another_threat_alone(scene: Scene) -> None:
    stored = scene.gate.store("bad.txt", BAD, context=scene.gate.context())
    scene.new_signatures()
    scene.after_rescans(1)
    scene.command("release", stored)
    scene.new_signatures()
    again = scene.after_rescans(2)[-1]
    assert (again["outcome"], again["reason"]) == ("kept", "virus_detected")
    assert data(scene.gate.get(f"/files/{stored}"))
    scene.new_signatures(hearing_out(b"stream: Other.Phrase FOUND\0"))
    assert scene.after_rescans(3)[-1]["outcome"] == "quarantined"
    not_found(scene.gate.get(f"/files/{stored}"))


def test_nothing_is_released_that_is_not_in_quarantine(scene: Scene) -> None:
    stored = scene.gate.store("a.txt", b"words", context=scene.gate.context())
    for file_id in (stored, "file_of_nobody"):
        ended = scene.command("release", file_id)
        assert ended.code == 1
        assert f"No file {file_id} is in quarantine" in ended.complaint


def test_each_scan_of_a_stored_file_is_in_the_decision_log(scene: Scene) -> None:
    context = scene.gate.context()
    bad = scene.gate.store("bad.txt", BAD, context=context)
    scene.gate.store("good.txt", b"harmless words", context=context)
    version = scene.new_signatures()
    rows = {row["file_id"]: row for row in scene.after_rescans(2)}
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


def test_every_file_is_scanned_once_for_each_edition(scene: Scene) -> None:
    context = scene.gate.context()
    stored = {scene.gate.store(f"{number}.txt", b"words %d" % number, context=context) for number in range(12)}
    scene.new_signatures()
    rows = scene.after_rescans(12)
    late = scene.gate.store("late.txt", b"words that came later", context=context)
    looks = scene.daemon.commands.count("VERSION")
    assert until(lambda: scene.daemon.commands.count("VERSION") > looks)
    assert sorted(row["file_id"] for row in scene.rescans()) == sorted(stored)
    assert late not in {row["file_id"] for row in rows}


def test_files_of_contexts_without_a_scan_are_left_alone(scene: Scene) -> None:
    unscanned = scene.gate.store("bad.txt", BAD, context=scene.gate.context(scan_for_viruses=False))
    scene.gate.store("good.txt", b"harmless words", context=scene.gate.context())
    scene.new_signatures()
    scene.after_rescans(1)
    assert data(scene.gate.get(f"/files/{unscanned}"))


def test_what_can_not_be_scanned_to_its_end_later_is_kept_and_told(scene: Scene) -> None:
    stored = scene.gate.store("a.txt", b"words", context=scene.gate.context())
    scene.new_signatures(hearing_out(b"stream: Heuristics.Limits.Exceeded.MaxScanTime FOUND\0"))
    (row,) = scene.after_rescans(1)
    assert (row["outcome"], row["reason"]) == ("kept", "scan_incomplete")
    assert data(scene.gate.get(f"/files/{stored}"))
    assert "rescan_incomplete" in scene.log()


def test_bytes_that_the_store_changed_are_not_judged(scene: Scene) -> None:
    gate = scene.gate
    gate.store("a.txt", b"the words that were stored", context=gate.context())
    (stored,) = gate.objects()
    (gate.service.place.data_dir / "objects" / "objects" / stored).write_bytes(b"other words")
    scene.new_signatures()
    assert until(lambda: "rescan_put_off" in scene.log())
    assert scene.rescans() == []
