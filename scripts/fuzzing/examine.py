"""Inspect one input twice, and report behaviour that no file may cause."""

import os
import time
from dataclasses import replace
from typing import Final

from sluice_inspect.format import Format
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Limits, Report

_LIMITS: Final = Limits(
    max_unpacked_bytes=64 * 1024**2,
    ratio_floor_bytes=16 * 1024**2,
    max_pixels=4_000_000,
    max_frames=200,
    soft_seconds=2.0,
)
_MAX_CPU_SECONDS: Final = 8.0
"""CPU seconds, well beyond the soft limit, so that a busy machine does not count as a hang."""


def examine(tested: Format, data: bytes) -> str | None:
    """Return in one line what the parser did wrong, or None."""
    try:
        first, seconds, cpu = _inspect(tested, data)
        second, again, _ = _inspect(tested, data)
    except Exception as error:  # noqa: BLE001  (any error is a finding)
        return f"escaped: {type(error).__name__}: {error}"[:200]
    if " reader failed: " in first.detail:
        return f"undeclared: {first.detail}"[:200]
    if cpu > _MAX_CPU_SECONDS:
        return f"slow: {cpu:.0f} s"
    if max(seconds, again) < _LIMITS.soft_seconds and replace(first, ms=0.0) != replace(second, ms=0.0):
        return f"two verdicts: {first.outcome} {first.finding} {first.detail!r}, {second.outcome} {second.finding} {second.detail!r}"[
            :300
        ]
    return None


def _inspect(tested: Format, data: bytes) -> tuple[Report, float, float]:
    """Return the report, the wall clock seconds and the CPU seconds."""
    fd = os.memfd_create("input")
    try:
        os.write(fd, data)
        began, cpu_began = time.monotonic(), time.process_time()
        report = inspect_file(fd, filename=f"input.{min(tested.extensions)}", limits=_LIMITS)
        return report, time.monotonic() - began, time.process_time() - cpu_began
    finally:
        os.close(fd)
