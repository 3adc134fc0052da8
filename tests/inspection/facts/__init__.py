"""Facts and flags of whole files, as the inspection reports them."""

import io
from collections.abc import Mapping

from sluice_inspect import inspect_file
from sluice_inspect.catalogue import FactValue


def facts_of(data: bytes, name: str) -> Mapping[str, FactValue]:
    """Return the facts of a file of that name."""
    return inspect_file(io.BytesIO(data), filename=name).facts


def flags_of(data: bytes, name: str) -> set[str]:
    """Return the flags of a file of that name."""
    return set(inspect_file(io.BytesIO(data), filename=name).flags)
