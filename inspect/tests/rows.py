"""Run every row of a table in one test: a case costs milliseconds of the test runner, a row costs its own work."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, cast

import pytest

_PARAM = type(pytest.param())


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
            failures.append(f"{name!r:.300}: {fault}")
        except Exception as fault:
            fault.add_note(f"in the row {name!r:.300}")
            raise

    yield run
    assert not failures, f"{len(failures)} rows failed\n" + "\n".join(failures)


def each_row(
    names: str | Sequence[str],
    table: Iterable[object] | Callable[[], Iterable[object]],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., object]], Callable[..., Any]]:
    """Run a test for every row of a table, as one case: `pytest.mark.parametrize` for rows that take milliseconds.

        @each_row(("text", "expected"), [("1", 1), ("2", 2)])
        def test_number_is_read(text: str, expected: int) -> None:
            assert parse(text) == expected

    A table that takes time to build is a function, which is called when the test runs. Each row has its own `tmp_path`
    and `monkeypatch`; any other fixture is shared by all rows.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows_now = list(table) if isinstance(table, Iterable) else None

    def named_rows() -> Iterator[tuple[object, dict[str, object]]]:
        found = list(cast("Callable[[], Iterable[object]]", table)()) if rows_now is None else rows_now
        assert found, "the table has no rows"
        labels = [ids(each) for each in found] if callable(ids) else found if ids is None else [*ids]
        for label, each in zip(labels, found, strict=True):
            if isinstance(each, _PARAM):
                yield each.id, dict(zip(columns, each.values, strict=True))
            else:
                values = [each] if isinstance(names, str) and len(columns) == 1 else [*cast("Iterable[object]", each)]
                yield label, dict(zip(columns, values, strict=True))

    def decorate(test: Callable[..., object]) -> Callable[..., Any]:
        @contextmanager
        def fresh(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
            own = dict(fixtures)
            with ExitStack() as stack:
                if "monkeypatch" in own:
                    own["monkeypatch"] = stack.enter_context(own["monkeypatch"].context())
                if "tmp_path" in own:
                    own["tmp_path"] = own["tmp_path"] / str(number)
                    own["tmp_path"].mkdir()
                yield own

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            with every_row() as row:
                for number, (label, values) in enumerate(named_rows()):
                    with row(label), fresh(fixtures, number) as own:
                        test(**values, **own)

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            with every_row() as row:
                for number, (label, values) in enumerate(named_rows()):
                    with row(label), fresh(fixtures, number) as own:
                        await cast("Awaitable[None]", test(**values, **own))

        runner: Any = run_async if inspect.iscoroutinefunction(test) else run
        whole = inspect.signature(test)
        left = [each for name, each in whole.parameters.items() if name not in columns]
        assert len(left) + len(columns) == len(whole.parameters), f"{test} does not take {columns}"
        runner.__signature__ = whole.replace(parameters=left)
        return cast("Callable[..., Any]", runner)

    return decorate
