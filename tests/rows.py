"""Run every row of a table in one test: a case costs milliseconds of the test runner, a row costs its own work."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest


@contextmanager
def every_row() -> Iterator[Callable[[object], AbstractContextManager[None]]]:
    """Yield what runs one row in a `with` block, and fail at the end with the failures of all rows.

        with every_row() as row:
            for text, expected in TABLE:
                with row(text):
                    assert parse(text) == expected

    A row fails by an `AssertionError` or a `pytest.raises` that sees nothing; any other exception ends the test at once.
    """
    failures: list[str] = []

    @contextmanager
    def run(name: object) -> Iterator[None]:
        try:
            yield
        except (AssertionError, pytest.fail.Exception) as fault:
            failures.append(f"{name!r}: {fault}")

    yield run
    assert not failures, f"{len(failures)} rows failed\n" + "\n".join(failures)
