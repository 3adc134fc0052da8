"""Facts and flags of whole files, as the inspection reports them."""

import io
from collections.abc import Callable, Iterable, Mapping
from functools import wraps

from sluice_inspect import inspect_file
from sluice_inspect.catalogue import FactValue
from tests.rows import every_row


def facts_of(data: bytes, name: str) -> Mapping[str, FactValue]:
    """Return the facts of a file of that name."""
    return inspect_file(io.BytesIO(data), filename=name).facts


def flags_of(data: bytes, name: str) -> set[str]:
    """Return the flags of a file of that name."""
    return set(inspect_file(io.BytesIO(data), filename=name).flags)


Row = tuple[str, bytes, str]


def flags(name: str) -> Callable[[Callable[[], Iterable[Row]]], Callable[[], None]]:
    """Run a test for rows of a case, the bytes of a file of that name, and its flags with spaces between them."""

    def decorate(rows: Callable[[], Iterable[Row]]) -> Callable[[], None]:
        @wraps(rows)
        def test() -> None:
            with every_row() as row:
                for case, data, expected in rows():
                    with row(case):
                        assert flags_of(data, name) == set(expected.split())

        return test

    return decorate
