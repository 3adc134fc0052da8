"""Uploads while scanners are killed and restarted at random: each is accepted with a recorded scan, or gets 503.

Two clamds are one engine, a c-icap before a third clamd is another, and both are required.
"""

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import ANY

import pytest

from tests.deployments import Deployments
from tests.run_length import amount
from tests.scanning.members import IcapMember, Member, running_members
from tests.scanning.pictures import noise_png
from tests.service import ApiClient, running_service

UPLOADS = amount("UPLOADS", short=100, full=1000)
INFECTED_EVERY = 10


@dataclass(frozen=True)
class UploadResult:
    """One upload and its response."""

    infected: bool
    status: int
    reason: str
    file_id: str | None


def upload_picture(client: ApiClient, context: str, number: int) -> UploadResult:
    infected = number % INFECTED_EVERY == 0
    response = client.upload(f"{number}.png", noise_png(number, infected=infected), context=context)
    body = response.json()
    file_id = body["data"]["file_id"] if response.status_code == 201 else None
    return UploadResult(infected, response.status_code, " ".join(body.get("errors", [])), file_id)


def kill_and_restart(members: Sequence[Member | IcapMember], stop: threading.Event) -> int:
    """Kill random members, sometimes all, and restart them, until `stop` is set. Return how many were killed."""
    rng, killed = random.Random(4), 0
    while not stop.is_set():
        chosen = members if rng.random() < 0.3 else [rng.choice(members)]
        for member in chosen:
            member.kill()
            killed += 1
        stop.wait(rng.uniform(0.05, 1.0))
        for member in chosen:
            member.start()
        stop.wait(rng.uniform(0.05, 0.5))
    return killed


@pytest.mark.timeout(900)
def test_every_upload_is_scanned_or_gets_503(deployments: Deployments, tmp_path: Path) -> None:
    clean = UPLOADS
    total = clean + clean // (INFECTED_EVERY - 1) + 1
    numbers = [number for number in range(total) if number % INFECTED_EVERY][:clean]
    numbers += range(0, total, INFECTED_EVERY)
    random.Random(2).shuffle(numbers)
    stop = threading.Event()
    with running_members(tmp_path, 3) as (*pool, behind), ExitStack() as ends:
        icap = IcapMember(tmp_path / "c-icap", behind)
        ends.callback(icap.kill)
        icap.start()
        settings = {
            "SCANNER": "clamd,icap:av",
            "CLAMD": ",".join(member.address for member in pool),
            "ICAP": f"av={icap.address}",
        }
        deployment = deployments.fresh("sqlite-local")
        with running_service(deployment, **settings) as service, ThreadPoolExecutor(9) as threads:
            client = service.new_client()
            context = client.create_context()
            killer = threads.submit(kill_and_restart, (*pool, behind, icap), stop)
            try:
                sent = list(threads.map(lambda number: upload_picture(client, context, number), numbers))
            finally:
                stop.set()
            killed = killer.result()
            check_results(client, sent, clean)
            accepted = sum(one.status == 201 for one in sent)
            refused = clean - accepted
            print(f"{clean} uploads: {accepted} accepted, {refused} with 503; {killed} kills")  # noqa: T201  (a figure)


def check_results(client: ApiClient, sent: Sequence[UploadResult], clean: int) -> None:
    accepted = {one.file_id for one in sent if one.status == 201}
    unavailable = [one for one in sent if not one.infected and one.status == 503]
    assert len(accepted) + len(unavailable) == clean
    assert {one.status for one in sent if one.infected} <= {400, 503}
    assert {one.reason for one in sent if one.status == 400} <= {"virus_detected"}
    assert not [one for one in sent if one.status == 400 and not one.infected]
    scans = {row["file_id"]: row["facts"]["scanned"] for row in client.decisions() if row["outcome"] == "accepted"}
    assert set(scans) == accepted
    for scan in scans.values():
        assert (scan["outcome"], scan["cached"]) == ("clean", False)
        assert [(one["engine"], one["outcome"]) for one in scan["each"]] == [(ANY, "clean"), ("icap:av", "clean")]
        assert scan["each"][0]["engine"].startswith("clamd 1.")
        assert scan["ms"] > 0
    assert len(client.object_keys()) == len(accepted)
