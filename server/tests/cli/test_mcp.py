"""`sluice mcp` as an agent uses it: the official client, on its standard input and output or in one process with it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluice_client.cli.app import run
from sluice_client.cli.mcp import Tools, tools
from sluice_client.cli.output import Exit
from sluice_client.cli.profiles import Target
from tests.api.samples import TEXT, picture
from tests.deployments import Deployments
from tests.service import ApiClient, running_service

if TYPE_CHECKING:
    from mcp import Client

NAMES = {"validate_file", "list_reports", "explain_rejection", "replay_change"}


@pytest.fixture(scope="module")
def tenant(deployments: Deployments) -> Iterator[ApiClient]:
    with running_service(deployments.fresh("sqlite-local")) as service:
        client = service.new_client()
        client.create_context(context_key="claims", allowed_extensions=["png", "txt"])
        yield client


@asynccontextmanager
async def agent(tenant: ApiClient, folder: Path) -> AsyncIterator[Client]:
    """An agent that has started the command, which may read files of the folder."""
    from mcp import Client, StdioServerParameters  # noqa: PLC0415  (loaded in a second, when a test runs)

    own = {"PATH": os.environ["PATH"], "SLUICE_URL": tenant.service.url, "SLUICE_API_KEY": key_of(tenant)}
    words = ["-m", "sluice.cli", "mcp", "--folder", str(folder)]
    async with Client(StdioServerParameters(command=sys.executable, args=words, env=own)) as client:
        yield client


@asynccontextmanager
async def agent_in_process(folder: Path, url: str, key: str) -> AsyncIterator[Client]:
    """An agent in one process with the tools, which may read files of the folder."""
    from mcp import Client  # noqa: PLC0415  (see above)

    async with Client(tools(Tools(Target(url, key), folder))) as client:
        yield client


def key_of(tenant: ApiClient) -> str:
    assert tenant.authorization is not None
    return tenant.authorization.removeprefix("Bearer ")


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool that must succeed, and return its result."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.is_error, content.text
    assert json.loads(content.text) == result.structured_content
    found: dict[str, Any] = json.loads(content.text)
    return found


async def error(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that must fail, and return what it says."""
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert result.is_error, content.text
    return content.text


async def test_tools_are_described_and_validate_list_explain_and_replay_without_a_change(
    tenant: ApiClient, tmp_path: Path
) -> None:
    (tmp_path / "dent.png").write_bytes(picture())
    (tmp_path / "broken.png").write_bytes(picture()[:100])
    tenant.store("note.txt", TEXT, context="claims")
    rejected = tenant.upload("setup.exe", b"MZ" + b"\1" * 500, context="claims").json()["report"]
    before = tenant.get("/files").json()["pagination"]["total"], tenant.get("/contexts/claims").json()["data"]
    async with agent(tenant, tmp_path) as client:
        listed = (await client.list_tools()).tools
        good = await call(client, "validate_file", path="dent.png", context="claims")
        broken = await call(client, "validate_file", path="broken.png", context="claims")
        newest = await call(client, "list_reports", context="claims", outcome="rejected", limit=1)
        explained = await call(client, "explain_rejection", report_id=rejected["report_id"])
        replay = await call(client, "replay_change", context="claims", changes={"allowed_extensions": ["png"]})
    assert {tool.name for tool in listed} == NAMES
    assert all(tool.description for tool in listed)
    assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed)
    assert (good["outcome"], good["reason"]) == ("accepted", None)
    assert (broken["outcome"], broken["reason"]) == ("rejected", "corrupt_file")
    assert [report["report_id"] for report in newest["reports"]] == [rejected["report_id"]]
    assert newest["total"] >= 1
    assert (explained["reason"], explained["message"]) == ("extension_not_allowed", rejected["message"])
    assert explained["advice"] == rejected["advice"]
    assert [check["code"] for check in explained["failed_checks"] if check["outcome"] == "fail"] == [
        "extension_not_allowed"
    ]
    assert [group["reason"] for group in replay["would_reject"]] == ["extension_not_allowed"]
    after = tenant.get("/files").json()["pagination"]["total"], tenant.get("/contexts/claims").json()["data"]
    assert after == before


async def test_every_failure_is_one_sentence(tenant: ApiClient, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "secret.txt").write_text("not to be sent")
    (tmp_path / "open" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "open" / "note.txt").write_bytes(TEXT)
    url = tenant.service.url
    async with agent_in_process(tmp_path / "open", url, key_of(tenant)) as client:
        below = f"is not below {tmp_path / 'open'}, the folder of this server."
        for path in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt"):
            assert await error(client, "validate_file", path=path, context="claims") == f"{path} {below}"
        assert await error(client, "validate_file", path="none.txt", context="claims") == "none.txt is no file."
        unknown = await error(client, "validate_file", path="note.txt", context="nowhere")
        assert unknown == "Resource not found (Not found)."
        assert await error(client, "list_reports", limit=1000) == "The limit must be 1 to 100."
        assert "Resource not found" in await error(client, "explain_rejection", report_id="rep_none")
        wrong = await error(client, "replay_change", context="claims", changes={"max_file_size_mb": 0})
        assert wrong.startswith("Validation error (changes.max_file_size_mb: ")
        assert await error(client, "explain_rejection") == "The arguments are wrong: report_id: Field required."
    async with agent_in_process(tmp_path, url, "sl_live_wrong") as client:
        assert await error(client, "list_reports") == "The service does not accept this API key."
    async with agent_in_process(tmp_path, url, "") as client:
        assert (await error(client, "list_reports")).startswith("An API key is needed: ")
    async with agent_in_process(tmp_path, "http://127.0.0.1:9", "sl_live_x") as client:
        assert (await error(client, "list_reports")).startswith("No service responds at http://127.0.0.1:9: ")


def test_command_names_the_missing_extra(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    assert run(["mcp"]) == Exit.ERROR
    assert capsys.readouterr().err == "sluice: The library for agents is missing: pip install 'sluice-client[mcp]'.\n"
