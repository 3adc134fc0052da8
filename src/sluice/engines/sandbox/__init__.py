"""The sandbox: strangers' bytes are parsed in locked child processes, never here. What the children run lives in `formats` and `threats`."""

from sluice.engines.sandbox.protocol import Away, Died, Overran, Ran, RunResult, Sandbox

__all__ = ["Away", "Died", "Overran", "Ran", "RunResult", "Sandbox"]
