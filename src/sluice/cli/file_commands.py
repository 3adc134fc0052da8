"""The commands for files: check them here, or upload them to a running service. Their words and options; what is done is in their modules."""

# ruff: noqa: PLC0415  (commands load their work when asked: `--help` must not wait for every engine's library)

from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.options import Json

_FILES = "Files"


def add_to(app: typer.Typer) -> None:
    """Add these commands to `app`."""
    for command in (check, upload):
        app.command(rich_help_panel=_FILES)(command)


def check(
    context: typer.Context,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", exists=True, help="Files, and folders with all that is in them.")
    ],
    *,
    integrity: Annotated[
        bool, typer.Option("--integrity/--no-integrity", help="Reject what is damaged, disguised or unsafe.")
    ] = True,
    blank: Annotated[bool, typer.Option("--blank/--no-blank", help="Reject what shows a reader nothing.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per file, as soon as it is known.")] = False,
) -> int:
    """Check files as an upload would be checked, without a server: is each sound, of the kind its name says, and not blank?

    Runs in the same sandbox, on as many files at once as it has workers (SLUICE_SANDBOX_WORKERS). Nothing is stored or sent, and nothing
    is scanned for malware.

    Ends with 1 when a file is rejected, 3 when one could not be read. JSON: path, accepted, reason (a reason code or null), outcome (ok,
    corrupt, blank, encrypted, unsupported, too_complex), format, content_type, detail, ms.
    """
    from sluice.cli.configured import settings_for_a_task
    from sluice.wiring.ahead import Launch, launch_ahead

    settings = settings_for_a_task()
    launch: Launch = context.obj or launch_ahead
    launched = launch()  # loads on another core while this one loads what follows
    from sluice.cli.checking import Asked, check

    return check(settings, paths, Asked(integrity=integrity, blank=blank), json=json, launched=launched)


def upload(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", exists=True, dir_okay=False, help="The files to send.")],
    *,
    context: Annotated[str, typer.Option("--context", metavar="KEY", help="The context whose rules apply.")],
    url: Annotated[str, typer.Option("--url", envvar="SLUICE_URL", help="Address of the service.")] = "http://127.0.0.1:8000",
    api_key: Annotated[
        str,
        typer.Option(
            "--api-key", envvar="SLUICE_API_KEY", help="API key or token. Better in the variable: other users see options."
        ),
    ] = "",
    metadata: Annotated[str | None, typer.Option("--metadata", help="A JSON object that is kept with each file.")] = None,
    json: Json = False,
) -> int:
    """Upload files to a running service, one after the other, and say of each what became of it.

    Files are sent as they are read: a large one takes no memory. Ends with 1 when one was rejected, 3 when the service could not be reached.
    """
    from sluice.cli.uploading import Destination, upload

    return upload(Destination(url, api_key, context, metadata), files, json=json)
