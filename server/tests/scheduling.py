"""Which setups the contract tests run on, and how xdist distributes and orders the tests.

The setups are made in `tests.conftest`. This module is a plugin of pytest, so that the tests of `make quick`, which load
no conftest, have `--shuffle` too.
"""

import os
from collections.abc import Collection, Sequence
from random import Random

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # shipped without type information

FLEET = "postgres-s3-redis"
"""Three servers and two workers behind HAProxy; every other setup is one process."""
ASKED_SETUPS = os.environ.get("SLUICE_TEST_SETUPS")
SETUPS = tuple((ASKED_SETUPS or "sqlite-local,postgres-s3").split(","))
"""The setups of the contract tests; `make contract-matrix` asks for the others: `postgres-local` and `FLEET`."""
SLOW_FILES = (
    "recovery/test_audit",
    "api/test_fleet",
    "scanning/",
    "recovery/",
    "deploy/test_prometheus",
    "api/test_o",
    "inspection/formats/test_same_verdicts",
    "observe/",
    "cli/",
    "sandbox/",
    "http1/",
)
"""Slow files, which run after the setups: only short files are left for the end, so that no xdist worker waits."""


class ServerScheduling(LoadScopeScheduling):  # type: ignore[misc]  # the same
    """Give all tests of one setup, or else of one file, to one xdist worker: an idle service costs processor time."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        config.option.loadscopereorder = False  # many tests are not slow tests: see `in_run_order`
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """Return what a worker takes as a whole."""
    return setup_of(nodeid) or nodeid.partition("::")[0]


def setup_of(nodeid: str) -> str | None:
    """Return the setup whose servers a test uses."""
    return next((setup for setup in SETUPS if f"[{setup}" in nodeid), None)


def setups_for(needs: Collection[str], *, engine: bool, one_process: bool) -> Sequence[str]:
    """Return the setups that a test runs on: `s3` needs one with S3, and `without_s3` one without.

    A test with the mark `engine` depends on the database or the store and runs on every setup that fits; any other runs
    on the first, unless `SLUICE_TEST_SETUPS` asks for setups by name.

    A test of what only one process promises (its log, its memory, its own counters, how it reads a connection) does not
    run on a fleet, where the proxy responses malformed requests itself. Such a test has the mark `one_process`.
    """
    fitting = [
        setup
        for setup in SETUPS
        if not ("s3" in needs and "-s3" not in setup) and not ("without_s3" in needs and "-s3" in setup)
    ]
    fitting = [setup for setup in fitting if not (one_process and setup == FLEET)]
    return fitting if engine or ASKED_SETUPS else fitting[:1]


def in_run_order(items: Sequence[pytest.Item], seed: int | None = None) -> list[pytest.Item]:
    """Return the tests in run order: those of the setups, then the slow files, then the rest.

    With a seed, setups, files and the tests in each are in a random order.
    """
    if seed is not None:
        random = Random(seed)
        scopes: dict[str, list[pytest.Item]] = {}
        for item in items:
            scopes.setdefault(scope_of(item.nodeid), []).append(item)
        shuffled = random.sample(list(scopes.values()), len(scopes))
        return [item for scope in shuffled for item in random.sample(scope, len(scope))]

    def turn(item: pytest.Item) -> int:
        if setup_of(item.nodeid):
            return -1
        path = item.nodeid.removeprefix("tests/")
        return next((number for number, start in enumerate(SLOW_FILES) if path.startswith(start)), len(SLOW_FILES))

    return sorted(items, key=turn)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle SEED`."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in the order in which xdist workers run them; without xdist, keep that of the files."""
    seed = config.getoption("shuffle")
    if hasattr(config, "workerinput") or seed is not None:
        items[:] = in_run_order(items, seed)
