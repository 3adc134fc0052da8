"""The sandbox that the settings ask for. `sluice check` needs nothing else but a scanner: no database, no keys."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.kit.health import EngineHealth, EngineState
from sluice.wiring.refusal import StartRefused
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import EarlyZygote
from sluice_inspect.sandbox.protocol import JobLimits

if TYPE_CHECKING:
    from sluice.scanner import Scanner
    from sluice.settings import Settings


def make_sandbox(settings: "Settings | None", launched: EarlyZygote | None = None) -> Sandbox:
    """Return the sandbox, not yet started, on the zygote that `prestart` launched, if any. Raise `StartRefused`.

    Without settings it has its defaults, which are those of the settings.
    """
    if sys.platform != "linux":
        raise StartRefused(f"The sandbox needs Linux; this system is {sys.platform}.")
    if settings is None:
        return ZygoteSandbox(launched=launched)
    if settings.python_checks:
        _require_checks(settings.python_checks)
    from sluice.observe.log import log  # noqa: PLC0415  (takes longer to load than a check of a small file)

    return ZygoteSandbox(
        workers=settings.sandbox_workers or None,
        least="seccomp" if settings.sandbox == "auto" else settings.sandbox,
        files_per_worker=settings.sandbox_files_per_worker,
        limits=JobLimits(wall_seconds=settings.sandbox_wall_seconds),
        wait_seconds=settings.sandbox_wait_seconds,
        checks=settings.python_checks,
        launched=launched,
        on_fault=lambda why, seconds: log.error("formats_failed", why=why, again_in_seconds=seconds),
    )


def _require_checks(names: Sequence[str]) -> None:
    """Raise `StartRefused` if no installed package offers one of these checks. Loads none."""
    from sluice_inspect.checks import installed_checks  # noqa: PLC0415  (few installations have checks of their own)

    installed = installed_checks()
    if missing := [name for name in names if name not in installed]:
        known = ", ".join(sorted(installed)) or "none"
        raise StartRefused(
            f"SLUICE_PYTHON_CHECKS: no installed package offers {', '.join(missing)}; installed checks: {known}."
        )


async def make_local_scanner(folder: Path, sandbox: Sandbox) -> "Scanner":
    """Return a scanner with the YARA rules of a folder and Sluice's own rules. Raise `StartRefused`."""
    # Few checks scan.
    from sluice.scanner.builtin import BuiltinScanner  # noqa: PLC0415
    from sluice.scanner.several import ConfiguredScanner, SeveralScanners  # noqa: PLC0415
    from sluice.scanner.yara import YaraScanner  # noqa: PLC0415
    from sluice_inspect.sandbox.rules import compile_rules  # noqa: PLC0415

    yara = YaraScanner(folder, sandbox, compile_rules)
    if fault := await yara.start():
        await yara.aclose()
        raise StartRefused(f"{folder}: {fault}.")
    return SeveralScanners([ConfiguredScanner(BuiltinScanner(sandbox)), ConfiguredScanner(yara)])


async def sandbox_health(sandbox: Sandbox) -> EngineHealth:
    """Return the health of the sandbox as that of an engine."""
    health = await sandbox.health()
    return EngineHealth("sandbox", "zygote", EngineState(health.state), detail=health.detail, limits=health.limits)
