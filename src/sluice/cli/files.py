"""`sluice files`: restore and hold files, and hold contexts, on a running service over HTTP."""

from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from sluice.cli import output
from sluice.cli.options import comment_text, group_of
from sluice.cli.output import CommandRefused, Exit
from sluice.cli.service import DEFAULT_URL, ApiKey, Url, read_answer, service_client

group = group_of("Restore deleted files, and put legal holds on files and contexts.")

_FILES: Final = "/api/v1/files"
_CONTEXTS: Final = "/api/v1/contexts"
File = Annotated[str, typer.Argument(metavar="FILE", help="Id of the file: file_…")]
FileOrNone = Annotated[str | None, typer.Argument(metavar="[FILE]", help="Id of the file: file_…")]
Context = Annotated[str | None, typer.Option("--context", metavar="KEY", help="All files of this context instead.")]


@group.command()
def restore(file: File, *, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """Restore a deleted file, until its object is purged. The API key needs the scope `delete`."""
    _ask("POST", f"{_FILES}/{quote(file, safe='')}/restore", url, api_key)
    output.line(f"The file {file} is restored.")


@group.command()
def hold(
    file: FileOrNone = None,
    *,
    reason: Annotated[
        str, typer.Option(callback=comment_text, metavar="TEXT", help="Why; the audit log and the metadata show it.")
    ],
    context: Context = None,
    url: Url = DEFAULT_URL,
    api_key: ApiKey = "",
) -> None:
    """Put a legal hold on a file, or on all files of a context, those to come too: nothing deletes or purges them.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    _ask("PUT", path, url, api_key, {"reason": reason})
    output.line(f"{named} is held.")


@group.command()
def unhold(file: FileOrNone = None, *, context: Context = None, url: Url = DEFAULT_URL, api_key: ApiKey = "") -> None:
    """End the legal hold on a file or on a context. Each has its own: ending one leaves the other.

    The API key needs the scope `admin`.
    """
    path, named = _target(file, context)
    _ask("DELETE", path, url, api_key)
    output.line(f"{named} is not held any more.")


def _target(file: str | None, context: str | None) -> tuple[str, str]:
    """Return the path of the hold of a file or a context, and what to call it."""
    if (file is None) == (context is None):
        raise CommandRefused("Name either a file or, with --context, a context.", Exit.USAGE)
    if file is not None:
        return f"{_FILES}/{quote(file, safe='')}/hold", f"The file {file}"
    return f"{_CONTEXTS}/{quote(context or '', safe='')}/hold", f"The context {context}"


def _ask(method: str, path: str, url: str, api_key: str, body: dict[str, Any] | None = None) -> None:
    with service_client(url, api_key) as client:
        read_answer(client.request(method, path, json=body), url)
