"""What may stop a start, and the folders that everything stands in. Which engine is made is decided in its neighbours."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StartRefused(Exception):
    """The service does not start with these settings on this machine. `str()` is one sentence that says what to do."""


@contextmanager
def refusing(names: str) -> Iterator[None]:
    """Name the settings that a part cannot be made from."""
    try:
        yield
    except ValueError as fault:
        raise StartRefused(f"{names}: {fault}.") from fault


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner can enter."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as fault:
        raise StartRefused(f"The folder {folder} cannot be made: {fault.strerror}.") from fault
