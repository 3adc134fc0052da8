"""The progress bar: shown on a terminal only."""

import os
import pty
import re
import subprocess
from pathlib import Path

from tests.api.samples import TEXT
from tests.cli.commands import Sluice, sluice_in
from tests.service import Service, cli_command


def test_check_shows_progress_on_a_terminal_only(sluice: Sluice, tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number}.txt").write_bytes(TEXT)
    terminal_output, output = run_on_terminal(
        sluice, "check", "--json", str(tmp_path / "0.txt"), *(str(path) for path in tmp_path.glob("*.txt"))
    )
    assert [word in terminal_output for word in (b"checking", b"/31")] == [True, True]
    assert (output.count(b"\n"), b"checking" in output) == (31, False)


def test_results_and_the_progress_bar_never_share_a_line_of_the_terminal(sqlite_local: Service, tmp_path: Path) -> None:
    client = sqlite_local.new_client()
    context = client.create_context()
    paths = [tmp_path / f"{number}.txt" for number in range(3)]
    for path in paths:
        path.write_bytes(TEXT)
    sender = sluice_in(tmp_path / "home", URL=sqlite_local.url, API_KEY=client.create_key("upload").text)
    controller, terminal = pty.openpty()
    environment = sender.environment | {"TERM": "xterm", "COLUMNS": "200"}
    command = cli_command("upload", "--context", context, *map(str, paths))
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = b"".join(iter(lambda: read_terminal(controller), b""))
    os.close(controller)
    assert process.wait(60) == 0
    assert b"uploading" in shown
    lines = [line for line in screen_of(shown.decode()) if line.strip()]
    *results, sums = lines
    assert [line.split()[:2] for line in results] == [["accepted", str(path)] for path in paths]
    assert sums.startswith("3 accepted: ")


def screen_of(output: str) -> list[str]:
    """Return the lines that a terminal shows at the end: carriage returns, erased lines and moves upwards are applied."""
    lines, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", output):
        match piece:
            case "\n":
                row, column = row + 1, 0
                lines.extend([""] * (row + 1 - len(lines)))
            case "\r":
                column = 0
            case "\x1b[2K":
                lines[row] = ""
            case _ if piece.endswith("A") and piece.startswith("\x1b"):
                row -= int(piece[2:-1] or 1)
            case _ if not piece.startswith("\x1b"):
                lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + 1 :]
                column += 1
    return lines


def run_on_terminal(sluice: Sluice, *arguments: str) -> tuple[bytes, bytes]:
    """Run a command with a terminal as standard error and a file as standard output; return both outputs."""
    controller, terminal = pty.openpty()
    output_path = sluice.folder / "output"
    environment = sluice.environment | {"TERM": "xterm", "COLUMNS": "100"}
    with output_path.open("wb") as file:
        process = subprocess.Popen(
            cli_command(*arguments), env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=terminal
        )
    os.close(terminal)
    terminal_output = b"".join(iter(lambda: read_terminal(controller), b""))
    os.close(controller)
    assert process.wait(60) == 0
    return terminal_output, output_path.read_bytes()


def read_terminal(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # EIO: the last writer has closed the terminal
        return b""
