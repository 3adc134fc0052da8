"""YAML: integrity, bombs and blankness."""

from collections.abc import Iterable

from sluice_inspect.formats.yaml import FORMAT
from tests.inspection.formats.examining import Row, verdicts

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)  # fmt: skip


@verdicts(FORMAT)
def test_every_document_gets_its_verdict() -> Iterable[Row]:
    for text in ("a: 1\n", "%YAML 1.2\n---\n- x\n...\n", "a: [1, 2\n", "\tindented by a tab\n", "- é\n"):
        for encoding in ("utf-8", "utf-16", "cp1252"):
            yield f"{text!r} {encoding}", text.encode(encoding), "ok"
    yield "zeros", b"a: 1\n" + bytes(9), "corrupt"
    levels = "".join(f"a{n}: &a{n}\n" + f"- *a{n - 1}\n" * 10 for n in range(1, 10))
    for text in (BOMB, "# " + "x" * 70_000 + "\n" + BOMB, f"a0: &a0 [x, x]\n{levels}"):
        yield f"aliases that multiply {text:.20}", text.encode(), "archive_bomb"
    for text in (
        "base: &base {a: 1}\n" + "".join(f"job{n}:\n  <<: *base\n" for n in range(5000)),
        "text: one & two & three * four ** five\n" * 3000,
        "rule: &x *x\n",
        "".join(f"a{n}: &a{n} {{x: 1}}\n" + f"use{n}:\n" + f"  - *a{n}\n" * 10 for n in range(60)),
    ):
        yield f"ordinary aliases {text:.20}", text.encode(), "ok"
    for text in (
        "---\n...\n", "# nothing\n", "a:\nb:\n", "a: ~ # none\nb: null\n", "- \n- []\n", "--- {}\n", "key: { }\n",
        "%YAML 1.2\n---\n", "\ufeff \n",
    ):  # fmt: skip
        yield f"nulls and empty values {text!r}", text.encode(), "blank"
    for text in (
        "a: 1", "x", "- 0", "false", "a:#b", "http://x", "a: |\n", "a: b:", "# c\n" * 90_000 + "x",
        "a:\n" + " " * 100_000 + "b",
    ):  # fmt: skip
        yield f"one value {text:.20}", text.encode(), "ok"
