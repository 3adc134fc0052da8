"""The sandbox: untrusted bytes are parsed in confined worker processes, never in the server.

This package runs in the caller's process. What runs in the workers is `sluice_inspect.child`; of that, the caller's
process loads only `protocol` and `shared_buffer`.
"""

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.protocol import (
    Completed,
    Crashed,
    FewFiles,
    Job,
    JobLimits,
    NoWorker,
    OperatorRules,
    OverLimit,
    RunResult,
    Sandbox,
    SandboxBroken,
    SandboxHealth,
)

__all__ = [
    "Completed",
    "Crashed",
    "FewFiles",
    "Job",
    "JobLimits",
    "Level",
    "NoWorker",
    "OperatorRules",
    "OverLimit",
    "RunResult",
    "Sandbox",
    "SandboxBroken",
    "SandboxHealth",
]
