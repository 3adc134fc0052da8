"""When a test may skip: for anything that can be installed it calls `tests.servers`, which fails under CI instead.

All other skips name something outside of this repository or a capability of the machine as their reason.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.repository import ROOT, TESTS
from tests.rows import each_row

OUTSIDE = ("../shared", "the labelled corpus is not beside the repository")
CAPABILITIES = ("root", "kernel", "setup has no")
NOT_UNDER_CI = ("UNDER_CI", "importorskip")
"""Skips that never happen under CI: the test runs there anyway, or the lock file contains the library."""


def reasons() -> Iterator[tuple[str, str]]:
    """Yield the place and the source text of every call in the tests that skips."""
    for path in sorted(path for folder in TESTS for path in folder.rglob("*.py")):
        if path.name == "required.py":
            continue
        source = path.read_text("utf-8")
        if "skip" not in source:
            continue
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
        for node in calls:
            if ast.unparse(node.func).rpartition(".")[2] in {"skip", "skipif", "importorskip"}:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", ast.unparse(node)


def test_tests_skip_only_for_what_no_package_provides() -> None:
    found = list(reasons())
    assert len(found) > 10
    excused = OUTSIDE + CAPABILITIES + NOT_UNDER_CI
    # what is missing is required through `tests.required`
    assert {place: call for place, call in found if not any(word in call for word in excused)} == {}


@each_row("ci, outcome, code", [("true", "1 failed", 1), ("", "1 skipped", 0)])
def test_missing_server_skips_with_its_package_or_fails_in_ci(ci: str, outcome: str, code: int, tmp_path: Path) -> None:
    test = tmp_path / "test_missing.py"
    needs_etcd = "require('Etcd', 'no-such-program', apt='etcd-server')"
    test.write_text(f"from tests.required import require\ndef test_it(): {needs_etcd}\n")
    options = ["-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command = [sys.executable, "-m", "pytest", *options, str(test)]
    environment = {**os.environ, "CI": ci, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(TESTS[0].parent)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout
    assert outcome in done.stdout.splitlines()[-1]
    assert "Etcd is not installed: apt-get install etcd-server" in done.stdout
