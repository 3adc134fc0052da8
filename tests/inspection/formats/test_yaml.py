"""YAML: integrity, bombs and blankness."""

from sluice_inspect.formats.yaml import FORMAT
from sluice_inspect.report import Finding, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)  # fmt: skip


@each_row("text", ["a: 1\n", "%YAML 1.2\n---\n- x\n...\n", "a: [1, 2\n", "\tindented by a tab\n", "- é\n"])
@each_row("encoding", ["utf-8", "utf-16", "cp1252"])
def test_text_passes_even_if_a_strict_parser_rejects_it(text: str, encoding: str) -> None:
    result = examine_bytes(FORMAT, text.encode(encoding))
    assert (result.outcome, result.blank) == (Outcome.OK, None)


def test_zeros_are_corrupt() -> None:
    assert examine_bytes(FORMAT, b"a: 1\n" + bytes(9)).outcome is Outcome.CORRUPT


def test_alias_expansion_is_a_bomb() -> None:
    levels = "".join(f"a{n}: &a{n}\n" + f"- *a{n - 1}\n" * 10 for n in range(1, 10))
    for text in (BOMB, "# " + "x" * 70_000 + "\n" + BOMB, f"a0: &a0 [x, x]\n{levels}"):
        assert examine_bytes(FORMAT, text.encode()).finding is Finding.ARCHIVE_BOMB


@each_row(
    "text",
    [
        "base: &base {a: 1}\n" + "".join(f"job{n}:\n  <<: *base\n" for n in range(5000)),
        "text: one & two & three * four ** five\n" * 3000,
        "rule: &x *x\n",
        "".join(f"a{n}: &a{n} {{x: 1}}\n" + f"use{n}:\n" + f"  - *a{n}\n" * 10 for n in range(60)),
    ],
)
def test_ordinary_aliases_pass(text: str) -> None:
    result = examine_bytes(FORMAT, text.encode())
    assert (result.outcome, result.finding) == (Outcome.OK, None)


@each_row(
    "text",
    [
        "---\n...\n", "# nothing\n", "a:\nb:\n", "a: ~ # none\nb: null\n", "- \n- []\n", "--- {}\n", "key: { }\n",
        "%YAML 1.2\n---\n", "\ufeff \n",
    ],
)  # fmt: skip
def test_nulls_and_empty_values_are_blank(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).blank


@each_row(
    "text",
    [
        "a: 1", "x", "- 0", "false", "a:#b", "http://x", "a: |\n", "a: b:", "# c\n" * 90_000 + "x",
        "a:\n" + " " * 100_000 + "b",
    ],
)  # fmt: skip
def test_one_value_is_not_blank(text: str) -> None:
    assert examine_bytes(FORMAT, text.encode()).blank is None
