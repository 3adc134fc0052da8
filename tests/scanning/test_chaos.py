"""Uploads while clamds are killed and restarted at random: each is accepted with a scan in its record, or told to come back."""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.api.places import Places
from tests.gate import Gate, running_service
from tests.length import amount
from tests.scanning.members import Member, running_members
from tests.scanning.pictures import noise

UPLOADS = amount("UPLOADS", short=100, whole=1000)
INFECTED_EVERY = 10


@dataclass(frozen=True)
class Sent:
    """One upload and what was said of it."""

    infected: bool
    status: int
    reason: str
    file_id: str | None


def send(gate: Gate, context: str, number: int) -> Sent:
    infected = number % INFECTED_EVERY == 0
    answer = gate.upload(f"{number}.png", noise(number, infected=infected), context=context)
    body = answer.json()
    file_id = body["data"]["file_id"] if answer.status_code == 201 else None
    return Sent(infected, answer.status_code, " ".join(body.get("errors", [])), file_id)


def kill_and_restart(members: Sequence[Member], stop: threading.Event) -> int:
    """Kill any of them, now and then all, and start them again a little later, until told to stop; answer how many were killed."""
    dice, killed = random.Random(4), 0
    while not stop.is_set():
        chosen = members if dice.random() < 0.3 else [dice.choice(members)]
        for member in chosen:
            member.kill()
            killed += 1
        stop.wait(dice.uniform(0.05, 1.0))
        for member in chosen:
            member.start()
        stop.wait(dice.uniform(0.05, 0.5))
    return killed


@pytest.mark.timeout(900)
def test_every_upload_is_accepted_with_a_scan_or_told_to_come_back(places: Places, tmp_path: Path) -> None:
    clean = UPLOADS
    total = clean + clean // (INFECTED_EVERY - 1) + 1
    numbers = [number for number in range(total) if number % INFECTED_EVERY][:clean] + list(range(0, total, INFECTED_EVERY))
    random.Random(2).shuffle(numbers)
    stop = threading.Event()
    with running_members(tmp_path, 3) as members:
        place, addresses = places.fresh("sqlite-local"), ",".join(member.address for member in members)
        with running_service(place, SCANNER="clamd", CLAMD=addresses) as service, ThreadPoolExecutor(9) as threads:
            gate = service.new_gate()
            context = gate.context()
            killing = threads.submit(kill_and_restart, members, stop)
            try:
                sent = list(threads.map(lambda number: send(gate, context, number), numbers))
            finally:
                stop.set()
            killed = killing.result()
            judge(gate, sent, clean)
            accepted = sum(one.status == 201 for one in sent)
            print(f"{clean} uploads: {accepted} accepted, {clean - accepted} told to come back; {killed} kills")  # noqa: T201  (the figure)


def judge(gate: Gate, sent: Sequence[Sent], clean: int) -> None:
    accepted = {one.file_id for one in sent if one.status == 201}
    away = [one for one in sent if not one.infected and one.status == 503]
    assert len(accepted) + len(away) == clean
    assert {one.status for one in sent if one.infected} <= {400, 503}
    assert {one.reason for one in sent if one.status == 400} <= {"virus_detected"}
    assert not [one for one in sent if one.status == 400 and not one.infected]
    scans = {row["file_id"]: row["facts"]["scanned"] for row in gate.decisions() if row["outcome"] == "accepted"}
    assert set(scans) == accepted
    for scan in scans.values():
        assert (scan["outcome"], scan["cached"]) == ("clean", False)
        assert scan["engine"].startswith("clamd 1.")
        assert scan["ms"] > 0
    assert len(gate.objects()) == len(accepted)
