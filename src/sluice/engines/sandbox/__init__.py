"""The sandbox: strangers' bytes are parsed in locked child processes, never here. What the children run lives in `formats` and `threats`.

Server side: `zygote` and `spawn` (the engines), `pool`, `nursery`, `link`, `turns`, `program`. Child side, never imported by the
server: `zygote_main`, `child`, `lock` with `landlock` and `seccomp`, `jobs`. Both sides: `wire`.
"""

from sluice.engines.sandbox.protocol import Away, Died, Level, Overran, Ran, RunResult, Sandbox, SandboxBroken

__all__ = ["Away", "Died", "Level", "Overran", "Ran", "RunResult", "Sandbox", "SandboxBroken"]
