"""The production jobs in a locked child: the self-test passes, sound files pass, damaged ones are corrupt."""

import io
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image, ImageDraw

from sluice_inspect.formats import xlsx
from sluice_inspect.report import Outcome, Report
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.threats import RULES_VERSION
from tests.inspection.formats.encrypted_workbooks import agile, rc4_stream, workbook
from tests.sandbox.conftest import OpenSandbox, RunJob
from tests.sandbox.processes import payload_of


def _png() -> bytes:
    image = Image.new("RGB", (120, 80), "white")
    ImageDraw.Draw(image).ellipse((20, 10, 90, 70), fill="navy")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


async def test_production_jobs_pass_self_test_and_check_files(
    open_sandbox: OpenSandbox, run: RunJob, seal: Callable[[bytes], Sealed]
) -> None:
    sandbox = await open_sandbox(jobs=DEFAULT_JOBS)

    async def payload(job: str, filename: str, content: bytes) -> Mapping[str, Any]:
        return payload_of(await run(sandbox, job, filename=filename, sealed=seal(content)))

    assert Report.from_json(await payload("check", "a.png", _png())).outcome is Outcome.OK
    assert Report.from_json(await payload("check", "a.png", _png()[:-60])).outcome is Outcome.CORRUPT
    assert Report.from_json(await payload("check", "a.unknown", bytes(range(256)))).format is None
    for name, encrypted in (("a.xlsx", agile(xlsx.FORMAT.sample())), ("a.xls", workbook(rc4_stream()))):
        report = Report.from_json(await payload("check", name, encrypted))
        assert (report.outcome, report.flags) == (Outcome.OK, ("encrypted.default",)), report.detail
    assert await payload("scan", "a.png", _png()) == {"complete": True, "signatures": RULES_VERSION}
