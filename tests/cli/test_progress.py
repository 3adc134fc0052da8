"""The bar of long work: shown on a terminal, and nowhere else."""

import os
import pty
import subprocess
from pathlib import Path

from tests.api.samples import TEXT
from tests.cli.commands import Sluice
from tests.gate import module


def test_a_person_at_a_terminal_sees_how_far_the_work_has_come(sluice: Sluice, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_bytes(TEXT)
    seen, said = watched(sluice, "check", "--json", str(tmp_path / "0.txt"), *(str(path) for path in tmp_path.glob("*.txt")))
    assert b"checking" in seen
    assert b"/31" in seen
    assert said.count(b"\n") == 31
    assert b"checking" not in said


def watched(sluice: Sluice, *words: str) -> tuple[bytes, bytes]:
    """Run a command whose standard error is a terminal and whose standard output is a file; answer what came to each."""
    ours, terminal = pty.openpty()
    output = sluice.folder / "output"
    environment = sluice.environment | {"TERM": "xterm", "COLUMNS": "100"}
    with output.open("wb") as file:
        process = subprocess.Popen(module(*words), env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=terminal)
    os.close(terminal)
    seen = b"".join(iter(lambda: read_terminal(ours), b""))
    os.close(ours)
    assert process.wait(60) == 0
    return seen, output.read_bytes()


def read_terminal(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # EIO: the last one who could write has gone
        return b""
