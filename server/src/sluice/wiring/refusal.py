"""The error that refuses a start, in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager


class StartRefused(Exception):
    """The service does not start with these settings on this machine. `str()` is one sentence that says what to do."""


@contextmanager
def refusing(names: str) -> Iterator[None]:
    """Turn a `ValueError` in the block into a `StartRefused` that names the settings at fault."""
    try:
        yield
    except ValueError as fault:
        raise StartRefused(f"{names}: {fault}.") from fault
