"""Examination: the checker's report, had from the sandbox. What it means is decided in `decide`."""

from sluice.engines.sandbox import Away, Died, Overran, Sandbox
from sluice.errors import Unavailable
from sluice.formats.verdict import Report
from sluice.kit.sealed import Sealed
from sluice.observe.stages import staged
from sluice.uploads.values import ExamineFact


@staged("examine")
async def examine(sealed: Sealed, filename: str, tenant_id: str, sandbox: Sandbox) -> ExamineFact:
    """Answer what the checker says of the bytes; raises `Unavailable` when no checker can be had: never a pass, never a rejection."""
    answer = await sandbox.run("check", sealed, filename=filename, tenant_id=tenant_id)
    if isinstance(answer, Away):
        raise Unavailable("file checker")
    if isinstance(answer, Overran):
        return ExamineFact(
            None, died=False, overran=answer.limit, detail=f"the checker reached its {answer.limit} limit", ms=answer.ms
        )
    if isinstance(answer, Died):
        return ExamineFact(None, died=True, overran=None, detail=answer.why, ms=answer.ms)
    try:
        report = Report.from_json(answer.payload)
    except (ValueError, KeyError, TypeError):
        # The child was taken over or broken: nothing that it says of this file is believed.
        return ExamineFact(None, died=True, overran=None, detail="the checker answered what no checker answers", ms=answer.ms)
    return ExamineFact(report, died=False, overran=None, detail=report.detail, ms=answer.ms)
