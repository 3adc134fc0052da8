"""A verdict depends on the bytes and the rules, not on what else the machine does."""

import time
from pathlib import Path

import pytest

from sluice_inspect.budget import Deadline
from sluice_inspect.registry import format_named
from tests.scripts import run_in_subprocess


def test_deadline_counts_processor_time_and_not_time_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    used = 5.0
    monkeypatch.setattr(time, "process_time", lambda: used)
    monkeypatch.delattr(time, "monotonic")
    deadline = Deadline(2.0)
    used = 6.9
    assert not deadline.has_passed
    used = 7.1
    assert deadline.has_passed


def test_verdicts_beside_busy_processes_are_those_of_an_idle_machine(tmp_path: Path) -> None:
    """`make busy` does the same with a folder of files and 16 processes at a higher priority."""
    for name in ("heic", "avif", "pdf", "gif", "docx", "mp4"):
        kind = format_named(name)
        assert kind is not None
        (tmp_path / f"a.{name}").write_bytes(kind.sample())
    done = run_in_subprocess("busy", str(tmp_path), "--processes", "4", "--nice", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 verdicts differ" in done.stdout
