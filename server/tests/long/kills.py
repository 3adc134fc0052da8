"""Random kills for hours, with a database that fails over, a full disk, and a clock that jumps by an hour both ways.

It is the sweep of `tests.recovery.sweep` on three PostgreSQL nodes under Patroni and a folder on a small disk: the same
clients, the same promises. Every tenth kill comes with a full disk, every seventh with a jump of the server's clock
(libfaketime), every fiftieth with the death of the database's primary, and each of them at least once.
"""

import json
import multiprocessing.forkserver
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.kit.failpoints import POINTS
from tests.cli.forked import PARENT, PRELOADED
from tests.events.receiver import Received, running_receiver
from tests.recovery.sweep.files import LURE
from tests.recovery.sweep.sweep import SETTINGS, Sweep
from tests.recovery.test_full_disks import small_disk
from tests.required import require
from tests.scanning.waiting import until
from tests.servers.patroni import Cluster, Node, running_cluster
from tests.service import Deployment, Service

KILLS = int(os.environ.get("SLUICE_TEST_KILLS", "30"))
SEED = os.environ.get("SLUICE_TEST_SEED", "1")
FAILOVER_EVERY, DISK_EVERY, CLOCK_EVERY = 50, 10, 7
PROGRESS_EVERY = 10
DISK_MB = 600
FULL_SECONDS = 2.0
WAITS = {"DATABASE_WAIT_SECONDS": "3", "DATABASE_CONNECT_SECONDS": "3", "DATABASE_STATEMENT_SECONDS": "5"}
ALWAYS_REACHED = ("reserve.done", "store.done", "record.done", "part.noted", "delete.open", "event.written")
"""Failpoints that are reached soon after a failover."""


@dataclass
class Clock:
    """The clock of servers and commands, which differs from that of the machine by whole hours."""

    file: Path
    hours: int = 0

    def jump(self, rng: random.Random) -> int:
        """Jump by an hour, forward or back; return the difference from now on."""
        self.hours += rng.choice((-1, 1)) if self.hours == 0 else -self.hours
        self.file.write_text(f"{self.hours * 3600:+}")
        return self.hours


@dataclass
class Troubles:
    """What is done to a server and its database while clients use it."""

    cluster: Cluster
    disk: Path
    clock: Clock
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)
    dead: list[Node] = field(default_factory=list)
    due: list[Callable[[Service], None]] = field(default_factory=list)

    def of(self, number: int) -> Callable[[Service], None] | None:
        """Return what comes with this kill, if anything does: a server may have died before what was due earlier."""
        if number % FAILOVER_EVERY == min(FAILOVER_EVERY, KILLS) // 2:
            self.due.append(self.fail_over)
        if number % DISK_EVERY == min(DISK_EVERY, KILLS) // 3:
            self.due.append(self.fill_the_disk)
        if number % CLOCK_EVERY == min(CLOCK_EVERY, KILLS) // 4:
            self.due.append(self.jump)
        return self.due[0] if self.due else None

    def fail_over(self, _service: Service) -> None:
        """Kill the primary of the database and wait for the next one."""
        primary = self.cluster.primary()
        assert primary is not None
        primary.kill()
        self.dead.append(primary)
        assert until(lambda: self.cluster.primary() not in {None, primary}, 120), self.cluster.members()
        self.done["failovers"] += 1
        self.due.pop(0)

    def fill_the_disk(self, _service: Service) -> None:
        """Leave no room for objects, for some seconds."""
        filler = self.disk / "filler"
        try:
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4096"], check=False, capture_output=True)
            time.sleep(FULL_SECONDS)  # in which clients use the service
        finally:
            filler.unlink()
        self.done["full disks"] += 1
        self.due.pop(0)

    def jump(self, _service: Service) -> None:
        """Let the clock jump while requests are in progress."""
        self.clock.jump(self.rng)
        self.done["jumps of the clock"] += 1
        self.due.pop(0)

    def repair(self) -> None:
        """Start the database's nodes that are dead, and wait until there are a primary and two standbys again."""
        while self.dead:
            self.cluster.restart(self.dead.pop())
            assert until(self.cluster.is_whole, 180), self.cluster.members()


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all servers and commands that are forked, but not of the machine's databases and scanners."""
    require("libfaketime", "faketime", apt="faketime")
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    found = Clock(tmp_path / ".faketimerc")
    found.file.write_text("+0")
    monkeypatch.setenv("HOME", str(tmp_path))  # where the library looks for the file
    with monkeypatch.context() as preloading:
        preloading.setenv("LD_PRELOAD", str(library))
        preloading.setenv("FAKETIME_CACHE_DURATION", "1")  # seconds
        preloading.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        preloading.setenv("DONT_FAKE_MONOTONIC", "1")
        PARENT.set_forkserver_preload([*PRELOADED, "tests.long.sleep"])
        multiprocessing.forkserver.ensure_running()
    return found


def answer(request: Received) -> tuple[int, dict[str, str], bytes]:
    """Answer a question of the external check, whose end is missing if the server died meanwhile."""
    verdict = "reject" if b'"name":"rejected' in request.body.replace(b" ", b"") else "accept"
    return 200, {}, json.dumps({"verdict": verdict}).encode()


@pytest.mark.timeout(600 + 60 * KILLS)
def test_no_promise_is_broken_by_kills_failovers_full_disks_and_jumps_of_the_clock(
    tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    rng, began = random.Random(SEED), time.monotonic()
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "lure.yar").write_text(f'rule Lure {{ strings: $a = "{LURE.decode()}" condition: $a }}')
    settings = {"SCANNER": "builtin,yara", "YARA_RULES": str(rules), "WEBHOOK_HOSTS": "127.0.0.1", **WAITS}
    points = [point for point in POINTS if not point.startswith(("parts.", "unit.", "settle."))]

    def say(words: str) -> None:
        with capsys.disabled():
            print(words, flush=True)  # noqa: T201  (the report of the run)

    with (
        running_cluster(tmp_path / "patroni") as cluster,
        small_disk(tmp_path / "disk", DISK_MB) as disk,
        running_receiver() as check,
        running_receiver() as hooks,
    ):
        check.respond = answer
        assert until(cluster.is_whole, 90), cluster.members()
        settings["STORAGE_DIR"] = str(disk)
        sweep = Sweep(
            Deployment("patroni", tmp_path, cluster.url("postgres"), settings),
            int(SEED),
            kills_per_check=5,
            settings=SETTINGS | {"UPLOAD_LEASE_SECONDS": "5"},  # in which objects must be stored on a busy machine
            receiver=hooks,
            context_fields={"external_checks": [{"name": "policy", "url": check.url}]},
        )
        troubles = Troubles(cluster, disk, clock, rng)
        sweep.begin()
        for number in range(1, KILLS + 1):
            trouble = troubles.of(number)
            point = rng.choice(ALWAYS_REACHED if trouble == troubles.fail_over else points)
            sweep.kill_at(point, depth=4, during=trouble)
            troubles.repair()
            if number % PROGRESS_EVERY == 0 or number == KILLS:
                did = ", ".join(f"{count} {what}" for what, count in sorted(troubles.done.items()))
                say(f"{number} of {KILLS} kills in {time.monotonic() - began:.0f} s; {did}; clock {clock.hours:+} h")
        sweep.end()
        did = ", ".join(f"{count} {what}" for what, count in sorted(troubles.done.items()))
        say(f"seed {SEED}: {sweep.summary(time.monotonic() - began)}; {did}")
    assert min(troubles.done[what] for what in ("failovers", "full disks", "jumps of the clock")) > 0
