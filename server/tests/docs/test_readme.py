"""The README's quick start: its lines run in a shell against a service on its first start."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.cli.serve import curl_lines
from tests.cli.commands import first_key, has_started
from tests.docs.pages import README, blocks, curl_blocks, run_line
from tests.required import require
from tests.servers import free_port
from tests.service import forked_process

TEXT = README.read_text(encoding="utf-8")
CREATE, UPLOAD, DOWNLOAD, EMPTY = curl_blocks(TEXT)


@dataclass(frozen=True)
class FirstStart:
    url: str
    output: str
    folder: Path

    def run(self, line: str) -> str:
        """Run a line of the README with the API key in the variable that the README names."""
        (variable,) = re.findall(r"^export (\w+)=", TEXT, re.MULTILINE)
        return run_line(line, url=self.url, environment={variable: first_key(self.output)}, folder=self.folder)


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstStart]:
    require("curl", "curl", apt="curl")
    folder, port = tmp_path_factory.mktemp("readme"), free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "output"
    environment = {"PATH": os.environ["PATH"], "SLUICE_PORT": str(port), "SLUICE_DATA_DIR": str(folder / "data")}
    environment |= {"SLUICE_SCANNER": "builtin"}
    with forked_process("serve", log, ready=lambda: has_started(port, log), environment=environment):
        yield FirstStart(url, log.read_text(encoding="utf-8"), folder)


@pytest.fixture(scope="module")
def created(first_start: FirstStart) -> str:
    """The response to the README's first line, which creates the context that the other lines use."""
    return first_start.run(CREATE)


def test_readme_lines_create_upload_and_download(first_start: FirstStart, created: str) -> None:
    assert json.loads(created)["message"] == "Context created"
    assert json.loads(first_start.run(UPLOAD))["message"] == "File uploaded"
    downloaded = first_start.run(DOWNLOAD)
    assert downloaded == "Hello, Sluice!"
    assert f"`{downloaded}`" in TEXT


def test_empty_file_gets_the_response_shown(first_start: FirstStart, created: str) -> None:
    shown, received = json.loads(blocks(TEXT, "json")[0]), json.loads(first_start.run(EMPTY))
    assert "a part of its report" in TEXT
    part = {name: received["report"][name] for name in shown["report"]}
    varying = {"timestamp": shown["timestamp"], "report": part | {"report_id": shown["report"]["report_id"]}}
    assert received | varying == shown


def test_readme_lines_match_the_welcome_message() -> None:
    assert curl_lines("http://127.0.0.1:8000", "$SLUICE_API_KEY") == (CREATE, UPLOAD, DOWNLOAD)


def test_readme_names_existing_make_targets() -> None:
    shown = re.findall(r"^make (\w+)$", TEXT, re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == ["run", "test"]
    assert set(shown) <= set(targets)
