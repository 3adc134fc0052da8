"""The example of a check in Python, installed and made in a locked worker."""

import hashlib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from sluice.contexts.policies import Mode
from sluice.settings import Settings
from sluice.uploads.examined import ExamineFact
from sluice.uploads.inspection import examine
from sluice.uploads.rules import decide, judge_all
from sluice.uploads.values import Facts, Rules
from sluice.wiring.refusal import StartRefused
from sluice.wiring.sandbox import make_sandbox
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import SandboxBroken
from sluice_inspect.sandbox.sealed import Sealed
from tests.api import samples
from tests.examples.conftest import EXAMPLES

PACKAGE = EXAMPLES / "python_check"
RULES = Rules(1, (), 10**6, reject_blank=False, reject_corrupt=False, scan=False, rate=None, quota_bytes=None)
DIES = """
import os

def check(source, facts):
    if facts["filename"] == "dies.txt":
        os._exit(3)
    return []
"""


@pytest.fixture
def installed(tmp_path: Path) -> list[str]:
    """Install the package, a check that cannot be loaded and one that ends its worker at a file called dies.txt.

    Return the folders in which Python finds them.
    """
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points: Mapping[str, str] = project["entry-points"]["sluice_inspect.checks"] | {
        "broken": "no_such_module:check",
        "dies": "check_that_dies:check",
    }
    (tmp_path / "check_that_dies.py").write_text(DIES, encoding="utf-8")
    metadata = tmp_path / "meter_check-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: meter-check\nVersion: 1.0\n", encoding="utf-8")
    lines = [f"{name} = {function}" for name, function in points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[sluice_inspect.checks]", *lines]), encoding="utf-8")
    return [str(tmp_path), str(PACKAGE / "src")]


async def examined(sandbox: ZygoteSandbox, name: str, content: bytes) -> Facts:
    fd = os.memfd_create("sealed")
    os.write(fd, content)
    try:
        sealed = Sealed(fd, len(content), hashlib.sha256(content).digest())
        fact: ExamineFact = await examine(sealed, name, "ten_1", sandbox)
    finally:
        os.close(fd)
    return Facts(name, name.rpartition(".")[2], len(content), "00", examined=fact)


async def test_example_of_a_check_judges_files_in_a_locked_worker_and_rejects_if_it_ended(installed: list[str]) -> None:
    sandbox = ZygoteSandbox(workers=2, import_path=installed, checks=["meter", "dies"])
    try:
        await sandbox.start(every_format=False)
        text = await examined(sandbox, "note.txt", samples.TEXT)
        rejection = decide(text, RULES)
        assert rejection is not None
        assert (rejection.reason, rejection.check) == ("rejected_by_check", "python.meter")
        assert rejection.detail == "meter.no_picture: found text/plain"
        small = await examined(sandbox, "meter.png", samples.picture())
        unmade = await examined(sandbox, "dies.txt", samples.TEXT)
    finally:
        await sandbox.aclose()
    assert decide(small, RULES) is None
    (check,) = [check for check in judge_all(small, RULES) if check.name == "python.meter"]
    assert (check.mode, check.outcome) == (Mode.QUARANTINE, "fail")
    failed = [check.name for check in judge_all(unmade, RULES) if check.outcome == "fail"]
    assert failed == ["python.meter", "python.dies"]
    for facts in (small, unmade):
        assert Facts.from_json(facts.to_json()).examined == facts.examined


async def test_check_that_cannot_be_loaded_lets_no_file_pass(installed: list[str]) -> None:
    sandbox = ZygoteSandbox(workers=2, import_path=installed, checks=["broken"])
    with pytest.raises(SandboxBroken, match="SLUICE_PYTHON_CHECKS: ModuleNotFoundError"):
        await sandbox.start(every_format=False)


def test_check_that_is_not_installed_is_refused_at_the_start() -> None:
    with pytest.raises(StartRefused, match="no installed package offers meter"):
        make_sandbox(Settings(python_checks=("meter",)))
