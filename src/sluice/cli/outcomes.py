"""How a command ends: exit codes, and the refusals that commands raise themselves. How other faults are worded is in `faults`."""

from enum import IntEnum


class Exit(IntEnum):
    """What a script learns from a command's end. The same for every command."""

    DONE = 0
    REFUSED = 1
    """The command worked and the answer is no: a file was rejected, an engine is down, there is no such tenant."""
    USAGE = 2
    """The command line or a setting is wrong; nothing was tried."""
    FAILED = 3
    """The command could not do its work here: no server, no database, no sandbox."""
    INTERRUPTED = 130
    """Ended by Ctrl-C, as shells count it."""


class CommandRefused(Exception):
    """A command cannot do what was asked. `str()` is one sentence that says what to do."""

    def __init__(self, sentence: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(sentence)
        self.code = code
