"""The rule for skips: what can be installed is asked for through `tests.servers`, which makes a failure of its absence under CI.

What remains may be skipped everywhere, and its reason says that it lies outside of this repository or is an ability of the machine.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = ("../shared", "the labelled corpus is not beside the repository")
ABILITIES = ("root", "kernel", "setup has no")
HELD_TO_CI = ("UNDER_CI", "importorskip")
"""Skips that CI does not have: it runs the test all the same, or the lock brings the library."""


def reasons() -> Iterator[tuple[str, str]]:
    """Answer each place in the tests that skips by itself, and its reason, with `{}` where it depends on values."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.parent.name == "servers":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"skip", "skipif", "importorskip"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node)


def test_every_skip_is_for_what_no_package_brings() -> None:
    found = list(reasons())
    assert len(found) > 10
    excused = OUTSIDE + ABILITIES + HELD_TO_CI
    assert {place: call for place, call in found if not any(word in call for word in excused)} == {}, (
        "say what is missing through tests.servers"
    )


@pytest.mark.parametrize(("ci", "outcome", "code"), [("true", "1 failed", 1), ("", "1 skipped", 0)])
def test_a_missing_server_is_named_and_under_ci_a_failure(ci: str, outcome: str, code: int, tmp_path: Path) -> None:
    test = tmp_path / "test_missing.py"
    test.write_text("from tests.servers import require\ndef test_it(): require('Etcd', 'no-such-program', apt='etcd-server')\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), str(test)]
    environment = {**os.environ, "CI": ci, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout
    assert outcome in done.stdout.splitlines()[-1]
    assert "Etcd is not installed: apt-get install etcd-server" in done.stdout
