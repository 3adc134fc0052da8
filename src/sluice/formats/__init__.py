"""Is this file sound? `check_file` judges one file by its format's own rules. Imports nothing of the service; runs in the sandbox.

Importing this package loads no parser: the server may know the values (`sluice.formats.verdict`) but never parse.
"""

from typing import TYPE_CHECKING

from sluice.formats.verdict import Finding, Limits, Outcome, Report

if TYPE_CHECKING:
    from sluice.formats.check import check_file

__all__ = ["Finding", "Limits", "Outcome", "Report", "check_file"]


def __getattr__(name: str) -> object:
    if name == "check_file":
        from sluice.formats.check import check_file  # noqa: PLC0415  (lazy on purpose: it loads every parser)

        return check_file
    raise AttributeError(name)
