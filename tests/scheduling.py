"""Which setups the tests of the contract run on, which worker of `pytest -n` runs which tests, and in what order. Setups are made in `tests.conftest`."""

import os
from collections.abc import Collection, Sequence

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # shipped without type information

FLEET = "postgres-s3-redis"
"""Three servers and two workers behind HAProxy; each other setup is one process."""
SETUPS = tuple(os.environ.get("SLUICE_TEST_SETUPS", "sqlite-local,postgres-s3").split(","))
"""Every test of the contract runs on each of these; `make contract-matrix` has the two others: `postgres-local` and `FLEET`."""
FIRST = (
    "recovery/test_audit",
    "api/test_fleet",
    "scanning/",
    "recovery/",
    "deploy/test_prometheus",
    "api/test_o",
    "formats/test_same_verdicts",
    "observe/",
    "cli/",
    "engines/",
    "edge/",
)
"""Files that take long, after those of the setups: what is left for the end is short, so that no worker waits for another."""


class ByServers(LoadScopeScheduling):  # type: ignore[misc]  # the same
    """Gives all tests of one setup, and else all tests of one file, to one worker: their servers then start once, not in every worker."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        config.option.loadscopereorder = False  # a file of many tests is not one of long tests: see `in_turn`
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return setup_of(nodeid) or nodeid.partition("::")[0]


def setup_of(nodeid: str) -> str | None:
    """Answer the setup whose servers a test uses."""
    return next((setup for setup in SETUPS if f"[{setup}" in nodeid), None)


def setups_for(needs: Collection[str], *, one_process: bool) -> Sequence[str]:
    """Answer the setups that a test runs on: one that needs an `s3`, or to be `served_here`, where there is or is none.

    What is promised of one process, or looked at in it (its log, its memory, the requests that it counts for itself, how it reads a
    connection), is no matter of a fleet: there the proxy answers odd framing in words of its own. A test of that has the mark `one_process`.
    """
    fitting = [
        setup for setup in SETUPS if not ("s3" in needs and "-s3" not in setup) and not ("served_here" in needs and "-s3" in setup)
    ]
    return [setup for setup in fitting if not (one_process and setup == FLEET)]


def in_turn(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Answer the tests with the setups first, which take longest, then the long files, and else as they were."""

    def turn(item: pytest.Item) -> int:
        if setup_of(item.nodeid):
            return -1
        path = item.nodeid.removeprefix("tests/")
        return next((number for number, start in enumerate(FIRST) if path.startswith(start)), len(FIRST))

    return sorted(items, key=turn)
