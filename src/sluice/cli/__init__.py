"""The `sluice` command: one module per subcommand group. Talks to people; every decision is made below."""

from sluice.cli.command import main

__all__ = ["main"]
