"""`each_row`: every row runs, and a test fails with all rows that fail."""

from pathlib import Path

import pytest

from tests.rows import each_row


def test_every_row_runs_and_all_failures_are_named() -> None:
    seen = []

    @each_row("number, square", [(1, 1), (2, 5), (3, 9), (4, 15)])
    def check(number: int, square: int) -> None:
        seen.append(number)
        assert number * number == square

    with pytest.raises(AssertionError) as failed:
        check()
    assert seen == [1, 2, 3, 4]
    first, *rows = str(failed.value).splitlines()
    assert first.startswith("2 rows failed")
    assert [line[:8] for line in rows if line.startswith("(")] == ["(2, 5): ", "(4, 15):"]


def test_a_row_fails_if_an_exception_is_not_raised() -> None:
    @each_row("text", ["one", "1"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match="'1': DID NOT RAISE"):
        check()


def test_another_exception_ends_the_test_and_names_its_row() -> None:
    @each_row("text", ["1", "one", "2"])
    def check(text: str) -> None:
        int(text)

    with pytest.raises(ValueError, match="invalid literal") as failed:
        check()
    assert failed.value.__notes__ == ["in the row 'one'"]


async def test_rows_of_a_coroutine_are_awaited_in_every_combination() -> None:
    seen = []

    @each_row("first", [1, 2])
    @each_row("second", lambda: "ab")
    async def check(first: int, second: str) -> None:
        seen.append((first, second))

    await check()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]


def test_an_empty_table_is_a_failure() -> None:
    @each_row("text", [])
    def check(text: str) -> None:
        pass

    with pytest.raises(AssertionError, match="no rows"):
        check()


@each_row("name", ["a", "b"])
def test_each_row_has_its_own_folder_and_patches(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(tmp_path.iterdir()) == []
    assert not hasattr(pytest, "sluice_row")
    monkeypatch.setattr(pytest, "sluice_row", name, raising=False)
    (tmp_path / name).touch()
