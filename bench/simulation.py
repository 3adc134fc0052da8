"""Two simulations of what one machine cannot show: two regions, and 10,000 uploads a second (`make simulation`).

The parameters are measured by other targets on two cores, or are assumptions; each says which. The
page docs/scale.md has the design and the figures.
"""

import argparse
import random
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, Final

import simpy

_MS: Final = 1e-3

# CPU seconds of a 10 KB picture with a scan: `make bench-profile ARGS="--scan"`, docs/performance.md.
SERVER_CPU: Final = 1.36 * _MS  # on the event loop, which is one core of a server
CHILD_CPU: Final = 0.54 * _MS
CLAMD_CPU: Final = 0.56 * _MS
DATABASE_CPU: Final = 0.32 * _MS
# A commit of PostgreSQL on the disk of this machine takes 1 to 5 ms; one on a local SSD is assumed here.
FLUSH: Final = 1.0 * _MS
BATCH: Final = 64  # statements of a group commit: `db.group_commit`
PUT: Final = 25 * _MS  # assumption: a small object in a bucket of the same region
SPREAD: Final = 0.3  # of the waits on a network, as a share of their mean

Process = Generator[simpy.Event, Any, Any]


def _wait(mean: float, chance: random.Random) -> float:
    return max(mean * 0.2, chance.gauss(mean, mean * SPREAD))


class Database:
    """A primary: its cores, its log that is flushed for all who wait, and the row of a context that a reservation locks.

    `round_trip` is that to a synchronous standby, whose reply each commit waits for; 0 without one.
    """

    def __init__(self, env: simpy.Environment, cores: int, round_trip: float = 0) -> None:
        self.env = env
        self.cores = simpy.Resource(env, cores)
        self.round_trip = round_trip
        self.busy = 0.0  # CPU seconds
        self._rows: dict[str, simpy.Resource] = {}
        self._flushed: simpy.Event | None = None
        self._next: simpy.Event | None = None

    def statement(self, units: int, row: str | None = None) -> Process:
        """Run one statement for `units` uploads and commit it; `row` is held until the commit is done."""
        if row is None:
            yield from self._run(units)
            return
        lock = self._rows.setdefault(row, simpy.Resource(self.env, 1))
        with lock.request() as held:
            yield held
            yield from self._run(units)

    def _run(self, units: int) -> Process:
        with self.cores.request() as core:
            yield core
            cost = DATABASE_CPU / 2 * units  # two statements of an upload
            self.busy += cost
            yield self.env.timeout(cost)
        yield self._commit()
        yield self.env.timeout(self.round_trip)

    def _commit(self) -> simpy.Event:
        """Return the event of the next flush, which all commits share that wait for it."""
        if self._flushed is None:
            self._flushed = self.env.event()
            self.env.process(self._flush(self._flushed))
            return self._flushed
        if self._next is None:
            self._next = self.env.event()
        return self._next

    def _flush(self, done: simpy.Event) -> Process:
        yield self.env.timeout(FLUSH)
        done.succeed()
        self._flushed, self._next = self._next, None
        if self._flushed is not None:
            self.env.process(self._flush(self._flushed))


@dataclass
class GroupCommit:
    """Equal statements of one server that wait for the one that runs: they go as one, at most `BATCH` of them."""

    env: simpy.Environment
    database: Database
    waiting: dict[str, list[simpy.Event]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)

    def commit(self, kind: str, row: str | None) -> simpy.Event:
        """Return the event that the statement of one upload is committed."""
        key = f"{kind} {row}"
        done = self.env.event()
        self.waiting.setdefault(key, []).append(done)
        if key not in self.running:
            self.running.add(key)
            self.env.process(self._run(key, row if kind == "reserve" else None))
        return done

    def _run(self, key: str, row: str | None) -> Process:
        while self.waiting[key]:
            batch, self.waiting[key] = self.waiting[key][:BATCH], self.waiting[key][BATCH:]
            yield from self.database.statement(len(batch), row)
            for one in batch:
                one.succeed()
        self.running.discard(key)


class Server:
    """One process: an event loop, its checkers on another core, and its group commit."""

    def __init__(self, env: simpy.Environment, database: Database) -> None:
        self.env = env
        self.loop = simpy.Resource(env, 1)
        self.checkers = simpy.Resource(env, 1)
        self.commits = GroupCommit(env, database)
        self.busy = 0.0

    def compute(self, seconds: float) -> Process:
        """Use the event loop."""
        with self.loop.request() as turn:
            yield turn
            self.busy += seconds
            yield self.env.timeout(seconds)

    def check(self) -> Process:
        """Use a checker."""
        with self.checkers.request() as turn:
            yield turn
            yield self.env.timeout(CHILD_CPU)


@dataclass(frozen=True)
class Load:
    """What the simulation of many servers found."""

    servers: int
    contexts: int
    median: float
    p95: float
    done: int
    loop_use: float
    database_cores: float
    clamd_use: float


def many_servers(rate: int, *, servers: int, clamd_cores: int, contexts: int, seconds: float, seed: int) -> Load:
    """Return what `rate` uploads a second to one database look like after `seconds`."""
    env, chance = simpy.Environment(), random.Random(seed)
    database = Database(env, cores=16)
    clamd = simpy.Resource(env, clamd_cores)
    clamd_busy = 0.0
    fleet = [Server(env, database) for _ in range(servers)]
    taken = list[float]()

    def scan() -> Process:
        nonlocal clamd_busy
        with clamd.request() as core:
            yield core
            clamd_busy += CLAMD_CPU
            yield env.timeout(CLAMD_CPU)

    def upload(server: Server, context: str) -> Process:
        began = env.now
        yield from server.compute(SERVER_CPU * 0.6)
        yield env.process(server.check()) & env.process(scan())
        yield server.commits.commit("reserve", context)
        yield env.timeout(_wait(PUT, chance))
        yield from server.compute(SERVER_CPU * 0.4)
        yield server.commits.commit("record", None)
        taken.append(env.now - began)

    def arrivals() -> Process:
        turn = cycle(fleet)
        while True:
            yield env.timeout(chance.expovariate(rate))
            env.process(upload(next(turn), f"context {chance.randrange(contexts)}"))

    env.process(arrivals())
    env.run(seconds)
    late = sorted(taken[len(taken) // 3 :]) or [float("inf")]
    return Load(
        servers,
        contexts,
        statistics.median(late),
        late[len(late) * 95 // 100],
        len(taken),
        sum(server.busy for server in fleet) / seconds / servers,
        database.busy / seconds,
        clamd_busy / seconds / clamd_cores,
    )


@dataclass(frozen=True)
class Design:
    """How two regions keep rows and objects.

    `standby`: `none`, `lagging` (asynchronous) or `synchronous`, in the other region. `both_buckets`: an object is put
    in both regions before its row is recorded; else the store copies it later. `primaries`: how many take writes of
    one context.
    """

    name: str
    standby: str
    both_buckets: bool
    primaries: int = 1


DESIGNS: Final = (
    Design("one region, asynchronous standby, the store replicates", "lagging", both_buckets=False),
    Design("synchronous standby, the store replicates", "synchronous", both_buckets=False),
    Design("synchronous standby, puts in both regions", "synchronous", both_buckets=True),
    Design("two primaries that merge", "lagging", both_buckets=False, primaries=2),
)
LAG: Final = 0.2  # assumption: seconds of an asynchronous standby, or of a merge, beside the round trip
RATE: Final = 100
COPIED: Final = 15.0  # assumption: mean seconds until a store has replicated an object


@dataclass(frozen=True)
class Region:
    """What became of a design when one region ended."""

    design: Design
    median: float
    p95: float
    rows_lost: int
    objects_lost: int
    over_quota: int


def two_regions(design: Design, round_trip: float, *, contexts: int, quota: int, seed: int) -> Region:
    """Return the times of uploads, what is lost of the acknowledged ones when region A ends, and files over the quota.

    Uploads come to both regions alike, `RATE` a second, into `contexts` with a quota of `quota` files together.
    """
    seconds = 60.0
    env, chance = simpy.Environment(), random.Random(seed)
    synchronous = design.standby == "synchronous"
    primaries = [Database(env, 16, round_trip if synchronous else 0) for _ in range(design.primaries)]
    servers = [GroupCommit(env, primaries[region % design.primaries]) for region in range(2)]
    used = [0] * design.primaries
    known = [0] * design.primaries  # what each has heard of the other's
    taken, acknowledged = list[float](), list[tuple[float, float]]()

    def heard(by: int) -> Process:
        yield env.timeout(round_trip / 2 + LAG)
        known[by] += 1

    def put() -> Process:
        both = [env.timeout(_wait(PUT, chance))]
        if design.both_buckets:
            both.append(env.timeout(_wait(PUT + round_trip, chance)))
        yield env.all_of(both)

    def upload(region: int) -> Process:
        began = env.now
        at = region % design.primaries
        away = round_trip if at != region else 0.0
        yield env.timeout(SERVER_CPU + CHILD_CPU + away)
        yield servers[region].commit("reserve", f"context {chance.randrange(contexts)}")
        if used[at] + known[at] >= quota:
            return
        used[at] += 1
        if design.primaries > 1:
            env.process(heard(1 - at))
        yield from put()
        yield env.timeout(away)
        yield servers[region].commit("record", None)
        taken.append(env.now - began)
        # The moments at which row and object are safe in region B.
        row = env.now if synchronous else env.now + round_trip / 2 + LAG
        held = env.now if design.both_buckets else env.now + chance.expovariate(1 / COPIED)
        acknowledged.append((row, held))

    def arrivals(region: int) -> Process:
        while True:
            yield env.timeout(chance.expovariate(RATE / 2))
            env.process(upload(region))

    env.process(arrivals(0))
    env.process(arrivals(1))
    env.run(seconds)
    ordered = sorted(taken)
    rows_lost = sum(row > seconds for row, _ in acknowledged)
    objects_lost = sum(row <= seconds < held for row, held in acknowledged)
    return Region(
        design,
        statistics.median(ordered),
        ordered[len(ordered) * 95 // 100],
        rows_lost,
        objects_lost,
        max(0, sum(used) - quota),
    )


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="bench.simulation", description=__doc__)
    parser.add_argument("--rate", type=int, default=10_000, help="uploads a second of the second table")
    parser.add_argument("--seconds", type=float, default=3.0, help="simulated time of the second table")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    regions = list[tuple[str, ...]]()
    for round_trip in (0.010, 0.030, 0.080):
        for design in DESIGNS:
            free = two_regions(design, round_trip, contexts=20, quota=10**9, seed=options.seed)
            full = two_regions(design, round_trip, contexts=1, quota=3000, seed=options.seed)
            times = (f"{1000 * free.median:.0f}", f"{1000 * free.p95:.0f}", f"{1000 * full.p95:.0f}")
            lost = (str(free.rows_lost), str(free.objects_lost), str(full.over_quota))
            regions.append((f"{1000 * round_trip:.0f}", design.name, *times, *lost))
    _table(
        f"Two regions, {RATE} uploads a second into 20 contexts for a minute, then region A ends",
        ("round trip, ms", "design", "median, ms", "p95", "p95, 1 context", "rows lost", "objects lost", "over quota"),
        regions,
    )
    fleets = list[tuple[str, ...]]()
    for servers, cores, contexts in ((10, 12, 1000), (14, 6, 1000), (16, 8, 1000), (20, 8, 16), (20, 8, 2), (20, 8, 1)):
        found = many_servers(
            options.rate,
            servers=servers,
            clamd_cores=cores,
            contexts=contexts,
            seconds=options.seconds,
            seed=options.seed,
        )
        measured = (f"{1000 * found.median:.0f}", f"{1000 * found.p95:.0f}", f"{found.done / options.seconds:.0f}")
        uses = (f"{found.loop_use:.0%}", f"{found.clamd_use:.0%}", f"{found.database_cores:.1f}")
        fleets.append((str(servers), str(cores), str(contexts), *measured, *uses))
    _table(
        f"{options.rate:,} uploads a second",
        ("servers", "clamd cores", "contexts", "median, ms", "p95", "a second", "loops", "clamd", "database cores"),
        fleets,
    )


if __name__ == "__main__":
    main()
