"""`sluice mcp`: tools for agents, over standard input and output, that ask a running service."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for it)

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, ParamSpec

import typer

from sluice_client import __version__
from sluice_client.cli import output
from sluice_client.cli.form import FormFile
from sluice_client.cli.output import CommandRefused, Exit
from sluice_client.cli.service import ApiKey, ProfileOption, Url, opened, segment

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from sluice_client.cli.profiles import Target

P = ParamSpec("P")
_FAILED: Final = frozenset({"fail", "would_fail", "error"})
_MOST_REPORTS: Final = 100
_INSTRUCTIONS: Final = (
    "Sluice is an upload gate: each file is judged by the rules of a context before it is stored. These tools change "
    "nothing. A reason is a stable code; `message` in a report is the sentence for the person who sent the file."
)


def mcp(
    folder: Annotated[
        Path, typer.Option("--folder", exists=True, file_okay=False, help="Only files below this can be validated.")
    ] = Path(),
    *,
    url: Url = None,
    api_key: ApiKey = None,
    profile: ProfileOption = None,
) -> None:
    """Serve tools for agents by the Model Context Protocol, on standard input and output.

    An agent starts this command itself. It validates files, lists reports, explains rejections and replays changes of
    rules, all without changing anything. The key needs the scopes `upload` and `metadata`, and `admin` for replays.
    Needs the extra `sluice-client[mcp]`.
    """
    from sluice_client.cli.profiles import target_of

    try:
        server = tools(Tools(target_of(url, api_key, profile), folder.resolve()))
    except ImportError as fault:
        raise CommandRefused(
            "The library for agents is missing: pip install 'sluice-client[mcp]'.", Exit.ERROR
        ) from fault
    server.run()


class Tools:
    """The tools, each a method whose docstring and arguments an agent reads."""

    def __init__(self, target: "Target", folder: Path) -> None:
        self._target = target
        self._folder = folder

    def validate_file(self, path: str, context: str) -> dict[str, Any]:
        """Judge a local file by the rules of a context without storing it. Returns the report with each check."""
        file = (self._folder / path).resolve()
        if not file.is_relative_to(self._folder):
            raise CommandRefused(f"{path} is not below {self._folder}, the folder of this server.")
        if not file.is_file():
            raise CommandRefused(f"{path} is no file.")
        with file.open("rb") as content, opened(self._target) as service:
            response = FormFile(file.name, content).send(service.http, "/api/v1/files/validate", {"context": context})
            return _dict(service.success(response)["data"]["report"])

    def list_reports(
        self,
        *,
        context: str | None = None,
        outcome: str | None = None,
        reason: str | None = None,
        filename: str | None = None,
        since: str | None = None,
        limit: int = 20,
    ) -> dict[str, Any]:
        """List reports of uploads, newest first, at most 100.

        `outcome` is accepted, rejected, quarantined or undecided; `reason` a reason code such as corrupt_file;
        `filename` a part of the name; `since` a moment such as 2026-01-31T12:00:00Z. `total` counts all that match.
        """
        if not 1 <= limit <= _MOST_REPORTS:
            raise CommandRefused(f"The limit must be 1 to {_MOST_REPORTS}.")
        asked = {"context": context, "outcome": outcome, "reason": reason, "filename": filename, "since": since}
        with opened(self._target) as service:
            response = service.envelope("GET", "/api/v1/reports", query={**asked, "page_size": limit})
        return {"total": response["pagination"]["total"], "reports": [_short(report) for report in response["data"]]}

    def explain_rejection(self, report_id: str) -> dict[str, Any]:
        """Explain why an upload was rejected or put into quarantine.

        Returns the reason code, the sentence for the sender, the advice, and each check that failed with what was found
        and expected.
        """
        with opened(self._target) as service:
            report = service.data("GET", f"/api/v1/reports/{segment(report_id)}")
        failed = [check for check in report["checks"] if check["outcome"] in _FAILED]
        more = {name: report[name] for name in ("retryable", "flags", "rules_version", "file")}
        return _short(report) | {"advice": report["advice"], "failed_checks": failed} | more

    def replay_change(self, context: str, changes: dict[str, Any], since: str = "7d") -> dict[str, Any]:
        """Show what a change of a context's rules would have done to earlier uploads. The context is not changed.

        `changes` has fields of a context, such as {"max_file_size_mb": 5} or {"allowed_extensions": ["pdf"]};
        `since` is how far to look back, such as 7d or 12h.
        """
        path = f"/api/v1/contexts/{segment(context)}/replay"
        with opened(self._target) as service:
            return _dict(service.data("POST", path, body={"changes": changes, "since": since}))


def tools(of: Tools) -> "MCPServer":
    """Return the server with the tools. Raises `ImportError` without the library."""
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations
    from pydantic import ValidationError

    class ToolServer(MCPServer):
        async def call_tool(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return await super().call_tool(*args, **kwargs)
            except ToolError as fault:
                # The library puts the name of the tool, and lines of pydantic, before and around the sentence.
                match fault.__cause__:
                    case ValidationError() as invalid:
                        wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in invalid.errors())
                        raise ToolError(f"The arguments are wrong: {'; '.join(wrong)}.") from fault
                    case ToolError() as said:
                        raise said from fault
                    case _:
                        raise

    def in_one_sentence(act: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
        @wraps(act)
        def acted(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
            try:
                return act(*args, **kwargs)
            except CommandRefused as fault:
                raise ToolError(str(fault)) from fault
            except OSError as fault:
                known = output.describe_fault(fault)
                raise ToolError(known[0] if known else str(fault)) from fault

        return acted

    server = ToolServer("sluice", version=__version__, instructions=_INSTRUCTIONS, log_level="WARNING")
    for tool in (of.validate_file, of.list_reports, of.explain_rejection, of.replay_change):
        read_only = ToolAnnotations(read_only_hint=True, destructive_hint=False)
        server.add_tool(in_one_sentence(tool), annotations=read_only)
    return server


def _short(report: Mapping[str, Any]) -> dict[str, Any]:
    names = ("report_id", "created_at", "outcome", "reason", "message", "context_key")
    return {name: report[name] for name in names} | {"filename": report["file"]["original_filename"]}


def _dict(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)
