"""`docs/security/asvs.md`: each requirement, how it is met, and the tests with its id. The rows are in `asvs_rows`."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from docs_pages.asvs_rows import ELSEWHERE, MORE, SOURCE, V5
from docs_pages.markdown import made_from, page, table

_ROOT: Final = Path(__file__).parents[2]
_SHOWN: Final = 3

_INTRO: Final = f"""
# ASVS 5.0

How Sluice meets the [OWASP Application Security Verification Standard 5.0]({SOURCE}). A proof is a test that carries
the id of the requirement: `@pytest.mark.asvs("5.2.3")`; `pytest -m asvs` runs them all. Chapter 5 is complete at level
3, and a test of the documentation fails if one of its rows has no proof. Of the other chapters every requirement of
levels 1 and 2 is in one of two lists: proven by a test, or not applicable or the operator's, with the reason. A
requirement for documentation is proven by a test that compares the page with the code.
"""


def asvs_page() -> str:
    """Return the page."""
    proofs = proofs_by_id()
    return page(
        made_from("the marks in tests and scripts/docs_pages/asvs_rows.py"),
        _INTRO,
        "## Chapter 5: file handling",
        _rows(V5, proofs),
        "## Other chapters",
        _rows(MORE, proofs),
        "## Not applicable, or not Sluice's",
        table(("Requirement", "Why"), list(ELSEWHERE.items())),
    )


def proofs_by_id() -> Mapping[str, list[str]]:
    """Return the tests by the requirement that they prove, each as `path::name`."""
    proofs: dict[str, list[str]] = defaultdict(list)
    for path in sorted(path for part in ("inspect", "server") for path in (_ROOT / part / "tests").rglob("test_*.py")):
        for name, wanted in _marked(path):
            proofs[wanted].append(f"{path.relative_to(_ROOT)}::{name}")
    return proofs


def _marked(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text(encoding="utf-8")
    if "mark.asvs(" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.asvs":
                for argument in mark.args:
                    yield node.name, str(ast.literal_eval(argument))


def _rows(rows: Mapping[str, str], proofs: Mapping[str, list[str]]) -> str:
    return table(
        ("Requirement", "What Sluice does", "Proof"),
        [(name, does, _proof(proofs.get(name, []))) for name, does in rows.items()],
    )


def _proof(tests: list[str]) -> str:
    shown = "<br>".join(f"`{test}`" for test in tests[:_SHOWN])
    return shown + (f"<br>and {len(tests) - _SHOWN} more" if len(tests) > _SHOWN else "")
