"""The sandbox: untrusted bytes are parsed in confined worker processes, never in the server.

This package is the server side. What runs in the workers is `sluice_inspect.child`; the server loads only its
`protocol` and `shared_buffer`.
"""

from sluice.sandbox.protocol import (
    Completed,
    Crashed,
    JobLimits,
    NoWorker,
    OverLimit,
    RunResult,
    Sandbox,
    SandboxBroken,
)
from sluice_inspect.child.protocol import Level

__all__ = [
    "Completed",
    "Crashed",
    "JobLimits",
    "Level",
    "NoWorker",
    "OverLimit",
    "RunResult",
    "Sandbox",
    "SandboxBroken",
]
