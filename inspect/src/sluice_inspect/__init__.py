"""Is this file sound, blank, what its name claims? `Inspector` judges files in locked processes.

`inspect` reads one file in this process, for files of your own. Imports nothing of the service. Importing this package
loads no parser: the server knows reports but never parses files.
"""

from typing import TYPE_CHECKING

from sluice_inspect.report import Finding, Limits, Outcome, Report

if TYPE_CHECKING:
    from sluice_inspect.inspection import inspect_file
    from sluice_inspect.inspection import inspect_file as inspect
    from sluice_inspect.inspector import Inspector, InspectorUnavailable, Verdict
    from sluice_inspect.sandbox import JobLimits, SandboxBroken

__all__ = [
    "Finding",
    "Inspector",
    "InspectorUnavailable",
    "JobLimits",
    "Limits",
    "Outcome",
    "Report",
    "SandboxBroken",
    "Verdict",
    "inspect",
    "inspect_file",
]


def __getattr__(name: str) -> object:
    # Imported on first use: the parsers, and what starts their processes.
    if name in {"inspect", "inspect_file"}:
        from sluice_inspect.inspection import inspect_file  # noqa: PLC0415

        return inspect_file
    if name in {"Inspector", "InspectorUnavailable", "Verdict"}:
        from sluice_inspect import inspector  # noqa: PLC0415

        return getattr(inspector, name)
    if name in {"JobLimits", "SandboxBroken"}:
        from sluice_inspect import sandbox  # noqa: PLC0415

        return getattr(sandbox, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
