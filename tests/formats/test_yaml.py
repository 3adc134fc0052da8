import pytest

from sluice.formats.kinds.yaml_text import KIND
from sluice.formats.verdict import Finding, Outcome
from tests.formats.judging import corpus, judge, needs_corpus

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)  # fmt: skip


@pytest.mark.parametrize("text", ["a: 1\n", "%YAML 1.2\n---\n- x\n...\n", "a: [1, 2\n", "\tindented by a tab\n", "- é\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_text_passes_whatever_a_strict_parser_says(text: str, encoding: str) -> None:
    judged = judge(KIND, text.encode(encoding))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_zeros_are_corrupt() -> None:
    assert judge(KIND, b"a: 1\n" + bytes(9)).outcome is Outcome.CORRUPT


def test_aliases_that_multiply_are_a_bomb_in_lists_below_each_other_too() -> None:
    levels = "".join(f"a{n}: &a{n}\n" + f"- *a{n - 1}\n" * 10 for n in range(1, 10))
    assert judge(KIND, f"a0: &a0 [x, x]\n{levels}".encode()).finding is Finding.ARCHIVE_BOMB


def test_aliases_that_multiply_are_a_bomb() -> None:
    assert judge(KIND, BOMB.encode()).finding is Finding.ARCHIVE_BOMB
    assert judge(KIND, ("# " + "x" * 70_000 + "\n" + BOMB).encode()).finding is Finding.ARCHIVE_BOMB


@pytest.mark.parametrize(
    "text",
    [
        "base: &base {a: 1}\n" + "".join(f"job{n}:\n  <<: *base\n" for n in range(5000)),
        "text: one & two & three * four ** five\n" * 3000,
        "rule: &x *x\n",
        "".join(f"a{n}: &a{n} {{x: 1}}\n" + f"use{n}:\n" + f"  - *a{n}\n" * 10 for n in range(60)),
    ],
)
def test_aliases_in_honest_use_pass(text: str) -> None:
    judged = judge(KIND, text.encode())
    assert (judged.outcome, judged.finding) == (Outcome.OK, None)


@pytest.mark.parametrize(
    "text",
    [
        "---\n...\n",
        "# nothing\n",
        "a:\nb:\n",
        "a: ~ # none\nb: null\n",
        "- \n- []\n",
        "--- {}\n",
        "key: { }\n",
        "%YAML 1.2\n---\n",
        "\ufeff \n",
    ],
)
def test_nulls_and_empty_values_are_blank(text: str) -> None:
    assert judge(KIND, text.encode()).blank


@pytest.mark.parametrize(
    "text",
    ["a: 1", "x", "- 0", "false", "a:#b", "http://x", "a: |\n", "a: b:", "# c\n" * 90_000 + "x", "a:\n" + " " * 100_000 + "b"],
)
def test_one_value_is_content(text: str) -> None:
    assert judge(KIND, text.encode()).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [
        path.name for path in corpus("yaml", "valid", "not_blank") if judge(KIND, path.read_bytes()).outcome is not Outcome.OK
    ] == []
    assert [path.name for path in corpus("yaml", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("yaml", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("yaml", "bomb") if judge(KIND, path.read_bytes()).passes] == []
