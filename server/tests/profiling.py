"""A pytest plugin that prints where the time of a run goes: `make test ARGS='-p tests.profiling'`.

It measures the wall time of each file and fixture, and the processor time of each program, sampled from /proc. A program
that lives for less than `_SAMPLE_SECONDS` is counted in its parent's line, where the parent has reaped it.
"""

import contextlib
import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest

_SAMPLE_SECONDS: Final = 0.5
_ROWS: Final = 40
_FOLDER: Final = "SLUICE_TEST_PROFILE"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class _Process:
    """Times of one xdist worker, or of the only process, written to a file at its end."""

    def __init__(self) -> None:
        self.files: defaultdict[str, float] = defaultdict(float)
        self.processor: defaultdict[str, float] = defaultdict(float)
        self.cases: Counter[str] = Counter()
        self.fixtures: defaultdict[str, float] = defaultdict(float)
        self.fixture_calls: Counter[str] = Counter()
        self.slowest: list[tuple[float, str]] = []
        self.collection = 0.0
        self._began = time.process_time()
        self._spent = 0.0

    def pytest_collection_finish(self) -> None:
        self.collection = time.process_time() - self._began
        self._spent = _tree_seconds(os.getpid())

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef.argname] += time.monotonic() - began
            self.fixture_calls[fixturedef.argname] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        began = time.monotonic()
        try:
            return (yield)
        finally:
            seconds, file = time.monotonic() - began, item.nodeid.partition("::")[0]
            self.files[file] += seconds
            self.cases[file] += 1
            if nextitem is None or nextitem.nodeid.partition("::")[0] != file:
                spent = _tree_seconds(os.getpid())
                self.processor[file] += spent - self._spent
                self._spent = spent
            self.slowest = sorted([*self.slowest, (seconds, item.nodeid)], reverse=True)[:_ROWS]

    def pytest_sessionfinish(self) -> None:
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        (Path(os.environ[_FOLDER]) / f"{os.getpid()}.json").write_text(json.dumps(own))


class _Programs:
    """Processor time of all processes below this one, by program, sampled from /proc."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}
        self._seconds: dict[tuple[int, int], tuple[float, float]] = {}
        self._sample()
        self._before = dict(self._seconds)
        self._session = os.getpid()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                stat = (folder / "stat").read_bytes()
                fields = stat.rpartition(b")")[2].split()
                key = (int(folder.name), int(fields[19]))
                if key not in self._names:
                    self._names[key] = _program((folder / "cmdline").read_bytes(), stat)
            except (OSError, IndexError):
                continue
            self._seconds[key] = (int(fields[11]) / _TICKS, int(fields[12]) / _TICKS)

    def totals(self) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, int]]:
        """Return the seconds, those of them in the kernel, and the number of processes of each program."""
        self._stop.set()
        self._thread.join()
        self._sample()
        seconds: defaultdict[str, float] = defaultdict(float)
        kernel: defaultdict[str, float] = defaultdict(float)
        for key, (user, system) in self._seconds.items():
            user_before, system_before = self._before.get(key, (0.0, 0.0))
            seconds[self._names[key]] += user - user_before + system - system_before
            kernel[self._names[key]] += system - system_before
        return seconds, kernel, Counter(self._names.values())


def _tree_seconds(root: int) -> float:
    """Return the processor time of a process and of all below it, with that of the children which they reaped."""
    seconds: dict[int, float] = {}
    children: defaultdict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            seconds[int(folder.name)] = sum(map(int, fields[11:15])) / _TICKS
            children[int(fields[1])].append(int(folder.name))
    total, left = 0.0, [root]
    while left:
        process = left.pop()
        total += seconds.get(process, 0.0)
        left += children[process]
    return total


def _program(command_line: bytes, stat: bytes) -> str:
    words = command_line.replace(b"\0", b" ").decode("utf-8", "replace")
    known = (
        "forkserver",
        "zygote_template",
        "child.zygote",
        "resource_tracker",
        "pytest",
        "execnet",
        "sluice",
        "radosgw",
    )
    program = stat.partition(b"(")[2].rpartition(b")")[0].decode("utf-8", "replace")
    if program == "clamd":  # with a folder of the tests among its words
        return program
    return next((name for name in known if name in words), program)


class _Summary:
    """Prints the tables of all processes at the end of the run."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._programs = _Programs()

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        wall = time.monotonic() - self._began
        seconds, kernel, processes = self._programs.totals()
        found = [json.loads(path.read_text()) for path in Path(os.environ[_FOLDER]).glob("*.json")]
        write = terminalreporter.write_line
        write(f"\nprofile: {wall:.0f} s, {sum(seconds.values()):.0f} CPU s, {os.cpu_count()} cores")
        write(f"collection, CPU s per process: {[round(one['collection'], 1) for one in found]}")
        _table(write, "CPU s by program (processes)", seconds, processes)
        _table(write, "CPU s in the kernel, by program (processes)", kernel, processes)
        _table(write, "s by file (cases)", *_merged(found, "files", "cases"))
        _table(write, "CPU s of a worker and what it started, by file (cases)", *_merged(found, "processor", "cases"))
        _table(
            write, "s by fixture, with those that it requests (setups)", *_merged(found, "fixtures", "fixture_calls")
        )
        write("slowest cases, s")
        for spent, nodeid in sorted((tuple(row) for one in found for row in one["slowest"]), reverse=True)[:_ROWS]:
            write(f"  {spent:7.1f}  {nodeid[:150]}")


def _merged(found: Iterable[Mapping[str, Any]], *names: str) -> list[Counter[str]]:
    sums: list[Counter[str]] = [Counter() for _ in names]
    for one in found:
        for total, name in zip(sums, names, strict=True):
            total.update(one[name])
    return sums


def _table(write: Any, title: str, seconds: Mapping[str, float], counts: Mapping[str, int]) -> None:
    write(f"{title}, {sum(seconds.values()):.0f} in all")
    rows = sorted(seconds.items(), key=lambda row: -row[1])
    for name, spent in rows if os.environ.get("SLUICE_TEST_PROFILE_ALL") else rows[:_ROWS]:
        write(f"  {spent:7.1f}  {name} ({counts[name]})")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[_FOLDER] = mkdtemp(prefix="profile-")
        config.pluginmanager.register(_Summary())
    config.pluginmanager.register(_Process())
