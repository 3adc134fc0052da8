"""What the distribution of the server, `sluice`, adds to the commands if it is installed too, by its entry point."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from sluice_client.cli.output import CommandRefused, Exit

GROUP: Final = "sluice.commands"


@dataclass(frozen=True)
class ServerCommands:
    """The commands that need the server's own code. Each is named as `module:attribute`.

    `panels` has them by the panels of the help. `local` names the modules that do on the database of this machine what
    a command does on a running service, by its name. `explain` returns a sentence and an exit code for a fault of the
    server's code, None for one that it does not know.
    """

    version: str
    panels: Mapping[str, Mapping[str, str]]
    local: Mapping[str, str]
    explain: Callable[[BaseException], "tuple[str, Exit] | None"]


@cache
def server_commands() -> ServerCommands | None:
    """Return what the server adds, None if it is not installed."""
    for found in entry_points(group=GROUP):
        added: ServerCommands = found.load()
        return added
    return None


def on_this_machine(command: str) -> Any:
    """Return the module that does what a command does on the database of this machine."""
    added = server_commands()
    if added is None:
        raise CommandRefused(
            "This works on the database of this machine, with the server's own code: pip install sluice.", Exit.USAGE
        )
    return import_module(added.local[command])
