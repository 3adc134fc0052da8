"""Run every row of a table in one test: a case costs milliseconds of the test runner, a row costs its own work."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any

import pytest

Rows = Iterable[Any] | Callable[[], Iterable[Any]]
_PARAMETER = type(pytest.param())


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
            failures.append(f"{repr(name)[:200]}: {fault}")

    yield run
    assert not failures, f"{len(failures)} rows failed\n" + "\n".join(failures)


def each_row(names: str, rows: Rows) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that calls a test with the arguments of each row, as `pytest.mark.parametrize` does, in one case.

        @each_row("text, expected", [("1", 1), ("2", 2)])
        def test_parses(text: str, expected: int) -> None:
            assert parse(text) == expected

    `rows` may be a function, which is called when the test runs. Decorators multiply. The rows share the fixtures of
    the test: what a row leaves behind is seen by the next one. A row fails as in `every_row`.
    """
    arguments = [name.strip() for name in names.split(",")]

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)
        fixtures = [parameter for name, parameter in signature.parameters.items() if name not in arguments]

        def calls() -> Iterator[tuple[object, dict[str, Any]]]:
            found = list(rows() if callable(rows) else rows)
            assert found, "the table has no row"
            for each in found:
                values: Sequence[Any] = (
                    each.values if isinstance(each, _PARAMETER) else (each,) if len(arguments) == 1 else each
                )
                assert len(values) == len(arguments), each
                yield each, dict(zip(arguments, values, strict=True))

        @wraps(test)
        def run_each(**given: Any) -> None:
            with every_row() as row:
                for name, values in calls():
                    with row(name):
                        test(**given, **values)

        @wraps(test)
        async def run_each_async(**given: Any) -> None:
            with every_row() as row:
                for name, values in calls():
                    with row(name):
                        await test(**given, **values)

        chosen: Any = run_each_async if inspect.iscoroutinefunction(test) else run_each
        chosen.__signature__ = signature.replace(parameters=fixtures)
        return chosen  # type: ignore[no-any-return]

    return decorate
