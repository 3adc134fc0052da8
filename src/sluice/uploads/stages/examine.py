"""Examination: the checker's report, had from the sandbox. What it means is decided in `decide`."""

from collections.abc import Mapping
from typing import Final

from sluice.engines.sandbox import Away, Died, Overran, Ran, Sandbox
from sluice.engines.scanner import Glance, look_beside_check
from sluice.errors import Unavailable
from sluice.formats.verdict import Report
from sluice.kit.sealed import Sealed
from sluice.observe.stages import staged
from sluice.uploads.values import ExamineFact

_GLANCED_BYTES: Final = 1024**2
"""Files of up to so many are checked and looked through by one child in one go: to hand them over costs as much as either."""


@staged("examine")
async def examine(sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox, glance: Glance | None = None) -> ExamineFact:
    """Answer what the checker says of the bytes; raises `Unavailable` when no checker can be had: never a pass, never a rejection.

    `glance` is settled with what the scanner's own rules see, where the same child may be asked for that; it is left to the scanner where a
    file is large.
    """
    if glance is None:
        return await _checked(sealed, filename, tenant_id, sandbox)
    if sealed.size > _GLANCED_BYTES:
        glance.leave()
        try:
            return await _checked(sealed, filename, tenant_id, sandbox)
        finally:
            glance.settle(None)
    return await _both(sealed, filename, tenant_id, sandbox, glance) or await _checked(sealed, filename, tenant_id, sandbox)


async def _checked(sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox) -> ExamineFact:
    answer = await sandbox.run("check", sealed, filename=filename, tenant_id=tenant_id)
    if isinstance(answer, Away):
        raise Unavailable("file checker")
    if isinstance(answer, Overran):
        return ExamineFact(
            None, died=False, overran=answer.limit, detail=f"the checker reached its {answer.limit} limit", ms=answer.ms
        )
    if isinstance(answer, Died):
        return ExamineFact(None, died=True, overran=None, detail=answer.why, ms=answer.ms)
    fact = _reported(answer.payload, answer.ms)
    if fact is None:
        # The child was taken over or broken: nothing that it says of this file is believed.
        return ExamineFact(None, died=True, overran=None, detail="the checker answered what no checker answers", ms=answer.ms)
    return fact


async def _both(sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox, glance: Glance) -> ExamineFact | None:
    """Answer the report when one child could give it and the look in little time; None: each is to be had by itself."""
    fact, look, told = None, None, None
    try:
        answer = await sandbox.run("inspect", sealed, filename=filename, tenant_id=tenant_id)
        if isinstance(answer, Away):
            raise Unavailable("file checker")
        if isinstance(answer, Ran):
            fact, told = _reported(answer.payload.get("check"), answer.ms), answer.payload.get("scan")
            look = None if fact is None else look_beside_check(told, answer.ms)
    finally:
        glance.settle(look)
    return fact if look is not None or told is None else None


def _reported(payload: object, ms: float) -> ExamineFact | None:
    """Answer the report in a child's answer, None when it is none."""
    try:
        report = Report.from_json(payload) if isinstance(payload, Mapping) else None
    except (ValueError, KeyError, TypeError):
        return None
    return None if report is None else ExamineFact(report, died=False, overran=None, detail=report.detail, ms=ms)
