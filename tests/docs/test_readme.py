"""What the README promises a newcomer holds: its own lines, run in a shell against a service on its very first start."""

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.cli.welcome import curl_lines
from tests.docs.pages import README, blocks, curl_blocks, run_line
from tests.servers import daemon, free_port, listens, require

TEXT = README.read_text(encoding="utf-8")
CREATE, UPLOAD, DOWNLOAD, EMPTY = curl_blocks(TEXT)


@dataclass(frozen=True)
class FirstStart:
    """A service on its first start, and what it printed."""

    url: str
    output: str
    folder: Path

    def run(self, line: str) -> str:
        """Run a line of the README, the key being where the README says to put it."""
        (variable,) = re.findall(r"^export (\w+)=", TEXT, re.MULTILINE)
        (key,) = re.findall(r"^  api key  (sl_live_\w+)$", self.output, re.MULTILINE)
        return run_line(line, url=self.url, environment={variable: key}, folder=self.folder)


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstStart]:
    require("curl", "curl", apt="curl")
    folder, port = tmp_path_factory.mktemp("newcomer"), free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "output"
    environment = {
        "PATH": os.environ["PATH"],
        "SLUICE_PORT": str(port),
        "SLUICE_DATA_DIR": str(folder / "data"),
        "SLUICE_SCANNER": "builtin",
    }
    command = [sys.executable, "-m", "sluice.cli", "serve"]
    with daemon(command, log, ready=lambda: listens(port), environment=environment):
        yield FirstStart(url, log.read_text(encoding="utf-8"), folder)


@pytest.fixture(scope="module")
def created(first_start: FirstStart) -> str:
    """What the first line of the README answered. The other lines need its context, in whatever order the tests come."""
    return first_start.run(CREATE)


@pytest.mark.xdist_group("readme")
def test_the_three_lines_create_upload_and_download(first_start: FirstStart, created: str) -> None:
    assert json.loads(created)["message"] == "Context created"
    assert json.loads(first_start.run(UPLOAD))["message"] == "File uploaded"
    downloaded = first_start.run(DOWNLOAD)
    assert downloaded == "Hello, Sluice!"
    assert f"`{downloaded}`" in TEXT


@pytest.mark.xdist_group("readme")
def test_an_empty_file_is_answered_as_shown(first_start: FirstStart, created: str) -> None:
    shown, answered = json.loads(blocks(TEXT, "json")[0]), json.loads(first_start.run(EMPTY))
    assert answered | {"timestamp": shown["timestamp"]} == shown


def test_the_lines_are_those_of_the_welcome() -> None:
    assert curl_lines("http://127.0.0.1:8000", "$SLUICE_API_KEY") == (CREATE, UPLOAD, DOWNLOAD)


def test_the_commands_shown_are_targets_of_make() -> None:
    shown = re.findall(r"^make (\w+)$", TEXT, re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == ["run", "test"]
    assert set(shown) <= set(targets)
