"""One input through one parser, twice: what is said of it, and whether that is allowed. Makes no inputs."""

import os
import time
from dataclasses import replace
from typing import Final

from sluice.formats.check import check_file
from sluice.formats.kind import Kind
from sluice.formats.verdict import Limits, Report

_LIMITS: Final = Limits(
    max_unpacked_bytes=64 * 1024**2, ratio_floor_bytes=16 * 1024**2, max_pixels=4_000_000, max_frames=200, soft_seconds=2.0
)
_SECONDS_MOST: Final = 8.0
"""Of the processor, and well beyond the soft limit: a machine that is busy with other things is no hang."""


def examine(kind: Kind, data: bytes) -> str | None:
    """Answer what the parser did that no file may make it do, in one line, or None."""
    try:
        first, seconds, worked = _judged(kind, data)
        second, *_ = _judged(kind, data)
    except Exception as error:  # noqa: BLE001  (that is the question)
        return f"escaped: {type(error).__name__}: {error}"[:200]
    if " reader failed: " in first.detail:
        return f"undeclared: {first.detail}"[:200]
    if worked > _SECONDS_MOST:
        return f"slow: {worked:.0f} s"
    if seconds < _LIMITS.soft_seconds and replace(first, ms=0.0) != replace(second, ms=0.0):
        return (
            f"two verdicts: {first.outcome} {first.finding} {first.detail!r}, {second.outcome} {second.finding} {second.detail!r}"[
                :300
            ]
        )
    return None


def _judged(kind: Kind, data: bytes) -> tuple[Report, float, float]:
    """Answer the report, and the seconds that it took on the clock and of the processor."""
    fd = os.memfd_create("input")
    try:
        os.write(fd, data)
        began, worked = time.monotonic(), time.process_time()
        report = check_file(fd, filename=f"input.{min(kind.extensions)}", limits=_LIMITS)
        return report, time.monotonic() - began, time.process_time() - worked
    finally:
        os.close(fd)
