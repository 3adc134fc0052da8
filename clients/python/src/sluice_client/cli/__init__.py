"""The `sluice` command: one module per group of commands, put together in `app`.

It needs the extra `sluice-client[cli]`. The distribution `sluice` adds the commands of the server.
"""

import sys


def main() -> None:
    """Run the command line of this process, or complete it for a shell, and exit."""
    try:
        import typer as _typer  # noqa: F401, PLC0415  (of the extra)
    except ImportError:
        sys.exit("sluice: The commands need more libraries: pip install 'sluice-client[cli]'.")
    from sluice_client.cli.app import main as run  # noqa: PLC0415  (of the extra)

    run()
