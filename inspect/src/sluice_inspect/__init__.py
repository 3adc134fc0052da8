"""Is this file sound, blank, what its name claims? `inspect` reads one file and returns a `Report`.

Imports nothing of the service. Importing this package loads no parser: the server knows reports but never parses files.
"""

from typing import TYPE_CHECKING

from sluice_inspect.report import Finding, Limits, Outcome, Report

if TYPE_CHECKING:
    from sluice_inspect.inspection import inspect_file
    from sluice_inspect.inspection import inspect_file as inspect

__all__ = ["Finding", "Limits", "Outcome", "Report", "inspect", "inspect_file"]


def __getattr__(name: str) -> object:
    if name in {"inspect", "inspect_file"}:
        from sluice_inspect.inspection import inspect_file  # noqa: PLC0415  (lazy on purpose: it loads every parser)

        return inspect_file
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
