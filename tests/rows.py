"""Run every row of a table in one test: a case costs milliseconds of the test runner, a row costs its own work."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

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
            failures.append(f"{name!r:.200}: {fault}")

    yield run
    assert not failures, f"{len(failures)} rows failed\n" + "\n".join(failures)


def rows(names: str, table: Collection[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test for every row of a table, in one case: the arguments of `pytest.mark.parametrize`, without its cases.

        @rows("text, expected", [("1", 1), ("one", None)])
        def test_number_is_parsed(text: str, expected: int | None) -> None:
            assert parse(text) == expected

    All rows run with the same fixtures; several tables make a product. A row fails as in `every_row`.
    """
    words = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def arguments() -> Iterator[tuple[Any, dict[str, Any]]]:
            for values in table:
                yield values, dict(zip(words, values if len(words) > 1 else (values,), strict=True))

        if inspect.iscoroutinefunction(test):

            @functools.wraps(test)
            async def each(**fixtures: Any) -> None:
                with every_row() as row:
                    for values, arguments_of_row in arguments():
                        with row(values):
                            await test(**fixtures, **arguments_of_row)

        else:

            @functools.wraps(test)
            def each(**fixtures: Any) -> None:
                with every_row() as row:
                    for values, arguments_of_row in arguments():
                        with row(values):
                            test(**fixtures, **arguments_of_row)

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in words]
        assert len(kept) == len(signature.parameters) - len(words), f"{test.__name__} lacks an argument of {names!r}"
        each.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # read by pytest
        return each

    return decorate
