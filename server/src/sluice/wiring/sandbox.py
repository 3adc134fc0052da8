"""The sandbox that the settings ask for. `sluice check` needs nothing else: no database, no keys."""

import sys

from sluice.sandbox import Sandbox
from sluice.sandbox.engine import ZygoteSandbox
from sluice.sandbox.launch import EarlyZygote
from sluice.sandbox.protocol import JobLimits
from sluice.settings import Settings
from sluice.wiring.refusal import StartRefused


def make_sandbox(settings: Settings, launched: EarlyZygote | None = None) -> Sandbox:
    """Return the sandbox, not yet started, on the zygote that `prestart` launched, if any. Raise `StartRefused`."""
    if sys.platform != "linux":
        raise StartRefused(f"The sandbox needs Linux; this system is {sys.platform}.")
    return ZygoteSandbox(
        workers=settings.sandbox_workers or None,
        least="seccomp" if settings.sandbox == "auto" else settings.sandbox,
        files_per_worker=settings.sandbox_files_per_worker,
        limits=JobLimits(wall_seconds=settings.sandbox_wall_seconds),
        wait_seconds=settings.sandbox_wait_seconds,
        launched=launched,
    )
