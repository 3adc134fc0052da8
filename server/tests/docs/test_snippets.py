"""The tutorials and how-tos: every block is run in a shell, shows a file of `examples/`, or says why it is not run.

The blocks of a page run in one shell, in their order, in an empty folder that has the files which the page shows. They
use a service of the tests instead of the addresses shown. A block of text behind one that runs is what it prints: `…`
matches anything. A block is not run if the paragraph before it begins with `Not run by the tests`, in italics.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import forked_program
from tests.deployments import Deployments
from tests.docs.pages import DOCS, ROOT
from tests.repository import IMPORT_PATH
from tests.required import require
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.azurite import Azurite
from tests.servers.clamd import running_clamd
from tests.servers.fake_gcs import FakeGcs, service_account_key
from tests.servers.oidc_provider import running_oidc_provider
from tests.servers.postgres import Postgres
from tests.servers.radosgw import RadosGateway
from tests.service import Service, running_service

PAGES = [*sorted((DOCS / "tutorials").glob("*.md")), *sorted((DOCS / "how-to").glob("*.md"))]
SECONDS = 200
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)\n```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"<!-- include: (\S+) -->\n\Z")
_NOT_RUN = re.compile(r"\*Not run by the tests(?: here)?: ([^*]+)\*\n\n\Z")
_MARK = "@@ block "


@dataclass(frozen=True)
class Block:
    """One block of a page: run, or the output of the one before, or a file of the examples, or not run for a reason."""

    language: str
    content: str
    file: str | None
    reason: str | None

    @property
    def is_run(self) -> bool:
        return self.language in {"sh", "python"} and self.file is None and self.reason is None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        before = text[: match.start()]
        file, why = _FILE.search(before), _NOT_RUN.search(before)
        reason = " ".join(why[1].split()).rstrip(".") if why else None
        found.append(Block(match["language"], match["content"], file[1] if file else None, reason))
    return found


def _named(page: Path) -> str:
    return f"{page.parent.name}/{page.name}"


@each_row("page", PAGES)
def test_every_block_is_run_or_compared_or_says_why_not(page: Path) -> None:
    blocks = blocks_of(page)
    assert blocks
    for before, block in zip([None, *blocks], blocks, strict=False):
        is_output = block.language == "text" and before is not None and before.is_run
        assert block.is_run or is_output or block.file or block.reason, f"no test runs {block.content!r}"
        if block.file is not None:
            assert block.content == (ROOT / block.file).read_text(encoding="utf-8").rstrip("\n"), "run `make docs`"


def test_blocks_that_are_not_run_are_listed_with_their_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [(page, block) for page in PAGES for block in blocks_of(page)]
    not_run = [(page, block) for page, block in blocks if block.reason is not None]
    with capsys.disabled():
        print("\nBlocks of the tutorials and how-tos that are not run:")  # noqa: T201  (the table is what it is for)
        for page, block in not_run:
            print(f"  {_named(page):32} {block.content.splitlines()[0][:48]:48} {block.reason}")  # noqa: T201
    assert len([block for _, block in blocks if block.is_run]) > len(not_run)


def test_no_example_has_more_than_a_hundred_lines() -> None:
    names = {".py", ".html", ".sh", ".ts", ".tsx", ".json"}
    for example in (path for path in (ROOT / "examples").iterdir() if path.is_dir()):
        found = [path for path in example.rglob("*") if path.suffix in names and "node_modules" not in path.parts]
        own = [path for path in found if path.name != "package-lock.json"]
        lines = {str(path.relative_to(example)): len(path.read_text(encoding="utf-8").splitlines()) for path in own}
        assert 0 < sum(lines.values()) <= 100, lines
        assert (example / "README.md").exists()


@pytest.fixture(scope="module")
def snippet_service(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local")) as service:
        yield service


@pytest.fixture
def real_values(
    request: pytest.FixtureRequest, page: Path, snippet_service: Service, tmp_path: Path
) -> Iterator[Mapping[str, str]]:
    """What a page shows, and what replaces it: addresses, secrets, folders."""
    client = snippet_service.new_client()
    assert client.authorization is not None
    values = {
        "http://127.0.0.1:8000": snippet_service.url,
        "sl_live_…": client.authorization.removeprefix("Bearer "),
        "8001": str(free_port()),
    }
    with ExitStack() as stack:
        if page.stem in {"production", "kubernetes"}:
            postgres: Postgres = request.getfixturevalue("postgres")
            url = postgres.createdb().replace("+asyncpg", "")
            values["postgresql://sluice:PASSWORD@127.0.0.1/sluice"] = url
        if page.stem in {"production", "clamd"}:
            (tmp_path / "clamd").mkdir()
            clamd = stack.enter_context(running_clamd(tmp_path / "clamd"))
            values["unix:/run/clamav/clamd.ctl"] = clamd.address
            values["/var/lib/sluice"] = "data"
        if page.stem == "s3":
            gateway: RadosGateway = request.getfixturevalue("gateway")
            values["https://s3.example.com"] = gateway.endpoint
            values["s3://sluice-files"] = f"s3://{gateway.fresh_bucket()}"
            values["AKIAIOSFODNN7EXAMPLE"] = gateway.access_key
            values["wJalrXUtnFEMI-EXAMPLE"] = gateway.secret_key
        if page.stem == "google-cloud-storage":
            gcs: FakeGcs = request.getfixturevalue("gcs")
            values["https://gcs.example.com"] = gcs.endpoint
            values["gs://sluice-files"] = f"gs://{gcs.fresh_bucket()}"
            (tmp_path / "key.json").write_text(service_account_key())
            (tmp_path / "key.json").chmod(0o600)
            values["/etc/sluice/key.json"] = str(tmp_path / "key.json")
        if page.stem == "azure":
            azurite: Azurite = request.getfixturevalue("azurite")
            container = azurite.fresh_container()
            values["https://acmeuploads.blob.core.windows.net"] = azurite.endpoint
            values["=acmeuploads.blob.core.windows.net"] = "=" + azurite.endpoint.removeprefix("http://")
            values["sluice-files"] = container
            values["SAS-TOKEN"] = azurite.sas(container)
        if page.stem == "oidc":
            (tmp_path / "oidc").mkdir()
            issuer = stack.enter_context(running_oidc_provider(tmp_path / "oidc"))
            values["https://id.example.com"] = issuer.issuer
            values["CLIENT-SECRET"] = "first-secret-0123456789"
        yield values


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.is_run for block in blocks_of(page))], ids=_named)
def test_every_block_of_a_page_runs_and_prints_what_is_shown(
    page: Path, real_values: Mapping[str, str], snippet_service: Service, tmp_path: Path
) -> None:
    require("curl", "curl", apt="curl")
    blocks, folder = blocks_of(page), tmp_path / "folder"
    folder.mkdir()
    for block in blocks:
        if block.file is not None:  # the page has its reader save it under the name of the file
            (folder / Path(block.file).name).write_text(block.content + "\n", encoding="utf-8")
    script = folder.with_suffix(".sh")
    script.write_text("set -eo pipefail\n" + "".join(_commands(blocks, real_values)), encoding="utf-8")
    with forked_program() as programs:
        output, code = _run(script, folder, programs, {"SLUICE_URL": snippet_service.url})
    printed = dict(zip(*[iter(re.split(rf"^{_MARK}(\d+)$\n?", output, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert code == 0, f"block {list(printed)[-1:]} failed:\n{output[-3000:]}"
    for number, block in enumerate(blocks):
        if block.language == "text" and block.reason is None:
            shown = block.content
            for text, real in real_values.items():
                shown = shown.replace(text, real)
            pattern = r"[\s\S]*?".join(re.escape(part) for part in shown.split("…"))
            ending = "" if shown.endswith("…") else r"\s*\Z"
            real = printed[str(number - 1)]
            assert re.search(pattern + ending, real), f"{block.content}\n\nis shown, and printed was\n\n{real}"


def _commands(blocks: list[Block], real_values: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the script: a mark before each block."""
    for number, block in enumerate(blocks):
        if not block.is_run:
            continue
        content = block.content
        for shown, real in real_values.items():
            content = content.replace(shown, real)
        if block.language == "python":
            content = f"python - <<'END_OF_PYTHON'\n{content}\nEND_OF_PYTHON"
        yield f"printf '\\n{_MARK}{number}\\n'\n{content}\n"


def _run(script: Path, folder: Path, programs: Path, environment: Mapping[str, str]) -> tuple[str, int]:
    """Run a script, and end what it left running; return what it printed and its exit code."""
    variables = {
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([IMPORT_PATH, str(ROOT / "clients" / "python" / "src")]),
        "SLUICE_PROCESSES": "1",
        **environment,
    }
    log = script.with_suffix(".log")
    with log.open("wb") as output:
        streams: dict[str, Any] = {"stdout": output, "stderr": subprocess.STDOUT}
        shell = subprocess.Popen(["bash", script], cwd=folder, env=variables, start_new_session=True, **streams)
        try:
            code = shell.wait(SECONDS)
        finally:
            with suppress(ProcessLookupError):  # it left nothing running
                os.killpg(shell.pid, signal.SIGKILL)  # the group is the shell's own, and the servers that it started
    return log.read_text(encoding="utf-8", errors="replace"), code
