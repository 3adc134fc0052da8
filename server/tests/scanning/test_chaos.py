"""Uploads while every engine is killed and restarted at random: each file gets its verdict, or 503.

Two clamds are one engine, a c-icap before a third clamd is another, YARA rules in the sandbox a third; all are required.
A hash list and an external check, whose connections are reset at random, take part. Some files are refused by one of
them alone.
"""

import hashlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol
from unittest.mock import ANY

import pytest

from tests.api.responses import data
from tests.deployments import Deployments
from tests.events.receiver import RESET, Received, running_receiver
from tests.run_length import amount
from tests.scanning.members import IcapMember, running_members
from tests.scanning.pictures import noise_png
from tests.service import ApiClient, Service, running_service

UPLOADS = amount("UPLOADS", short=100, full=1000)
BAD: Final[Mapping[int, tuple[str, str]]] = {
    0: ("an infected file", "virus_detected"),
    1: ("a file that only a YARA rule matches", "virus_detected"),
    2: ("a file that a hash list denies", "denied_file"),
    3: ("a file that the external check rejects", "rejected_by_check"),
}
"""Files by the last digit of their number, with the reason; all others are good."""
ZYGOTE_SECONDS = 5.0
"""Between two kills of the zygote, which loads every format when it starts."""
LURE = b"urgent invoice"
RESETS = 0.1
"""Of the questions to the external check: fewer than those after which it would not be asked for a while."""


_resets = random.Random(5)


class Killable(Protocol):
    """What can be killed and started again."""

    def start(self) -> None: ...

    def kill(self) -> None: ...


class Zygote:
    """The process of the sandbox that starts all others in it; the server starts it again."""

    def __init__(self, service: Service) -> None:
        self._server = service.process.pid
        self._killed_at = time.monotonic()

    def start(self) -> None:
        """Leave it to the server."""

    def kill(self) -> None:
        if time.monotonic() - self._killed_at < ZYGOTE_SECONDS:
            return
        self._killed_at = time.monotonic()
        for thread in Path(f"/proc/{self._server}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                for child in (thread / "children").read_text().split():
                    os.kill(int(child), signal.SIGKILL)


@dataclass(frozen=True)
class UploadResult:
    """One upload and its response."""

    number: int
    status: int
    reason: str
    file_id: str | None


def picture(number: int) -> bytes:
    return noise_png(number, infected=number % 10 == 0, comment=LURE if number % 10 == 1 else b"")


def upload_picture(client: ApiClient, context: str, number: int) -> UploadResult:
    response = client.upload(f"{number}.png", picture(number), context=context)
    body = response.json()
    file_id = body["data"]["file_id"] if response.status_code == 201 else None
    return UploadResult(number, response.status_code, " ".join(body.get("errors", [])), file_id)


def kill_and_restart(members: Sequence[Killable], stop: threading.Event) -> int:
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


def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
    if _resets.random() < RESETS:
        return RESET, {}, b""
    is_bad = json.loads(request.body)["name"].endswith("3.png")
    return 200, {}, json.dumps({"verdict": "reject" if is_bad else "accept"}).encode()


@pytest.mark.timeout(900)
def test_every_upload_gets_the_verdict_of_every_engine_or_503(deployments: Deployments, tmp_path: Path) -> None:
    numbers = list(range(UPLOADS))
    random.Random(2).shuffle(numbers)
    stop = threading.Event()
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "lure.yar").write_text(f'rule Lure {{ strings: $a = "{LURE.decode()}" condition: $a }}')
    with running_members(tmp_path, 3) as (*pool, behind), running_receiver() as check, ExitStack() as ends:
        icap = IcapMember(tmp_path / "c-icap", behind)
        ends.callback(icap.kill)
        icap.start()
        check.respond = answer
        settings = {
            "SCANNER": "clamd,icap:av,yara",
            "CLAMD": ",".join(member.address for member in pool),
            "ICAP": f"av={icap.address}",
            "YARA_RULES": str(rules),
            "WEBHOOK_HOSTS": "127.0.0.1",
            # Each wait ends before the client's does.
            "SANDBOX_WAIT_SECONDS": "20",
            "CLAMD_SCAN_SECONDS": "20",
            "ICAP_SCAN_SECONDS": "20",
        }
        deployment = replace(deployments.fresh("sqlite-local"), own_zygote=True)
        with running_service(deployment, **settings) as service, ThreadPoolExecutor(9) as threads:
            client = service.new_client()
            context = client.create_context(external_checks=[{"name": "policy", "url": check.url}])
            denied = [{"digest": hashlib.sha256(picture(each)).hexdigest()} for each in numbers if each % 10 == 2]
            data(client.post("/hash-lists", {"entries": denied}), 201)
            killer = threads.submit(kill_and_restart, (*pool, behind, icap, Zygote(service)), stop)
            try:
                sent = list(threads.map(lambda number: upload_picture(client, context, number), numbers))
            finally:
                stop.set()
            killed = killer.result()
            check_results(client, sent)
            statuses = dict(Counter(one.status for one in sent))
            print(f"{len(sent)} uploads by status: {statuses}; {killed} kills")  # noqa: T201  (a figure)


def check_results(client: ApiClient, sent: Sequence[UploadResult]) -> None:
    assert {one.status for one in sent} == {201, 400, 503}
    answered = [one for one in sent if one.status != 503]
    assert {one.number: one.reason for one in answered if one.status == 400} == {
        one.number: BAD[one.number % 10][1] for one in answered if one.number % 10 in BAD
    }
    assert {one.number % 10 for one in answered} >= set(BAD), "a kind of bad file had no verdict at all"
    accepted = {one.file_id for one in sent if one.status == 201}
    facts: dict[str, Any] = {row["file_id"]: row["facts"] for row in client.decisions() if row["outcome"] == "accepted"}
    assert set(facts) == accepted
    for fact in facts.values():
        scan = fact["scanned"]
        assert (scan["outcome"], scan["cached"]) == ("clean", False)
        said = [(one["engine"], one["outcome"]) for one in scan["each"]]
        assert said == [(ANY, "clean"), ("icap:av", "clean"), ("yara", "clean")]
        assert scan["each"][0]["engine"].startswith("clamd 1.")
        assert scan["ms"] > 0
        assert fact["listed"]["entries"] == []
        assert [one["verdict"] for one in fact["external"]] == ["accept"]
    assert len(client.object_keys()) == len(accepted)
