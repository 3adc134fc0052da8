"""The `sluice` command: one module per group of commands, put together in `app`."""

from sluice.cli.app import main

__all__ = ["main"]
