"""The production jobs in a locked child: the self-test passes, sound files pass, damaged ones are corrupt."""

import io
from collections.abc import Callable

from PIL import Image, ImageDraw

from sluice.kit.sealed import Sealed
from sluice.sandbox.launch import DEFAULT_JOBS
from sluice.sandbox.protocol import Completed
from sluice_inspect.report import Outcome, Report
from sluice_inspect.threats import RULES_VERSION
from tests.sandbox.conftest import OpenSandbox, RunJob


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
    good = await run(sandbox, "check", filename="a.png", sealed=seal(_png()))
    truncated = await run(sandbox, "check", filename="a.png", sealed=seal(_png()[:-60]))
    unknown = await run(sandbox, "check", filename="a.unknown", sealed=seal(bytes(range(256))))
    scanned = await run(sandbox, "scan", filename="a.png", sealed=seal(_png()))
    assert isinstance(good, Completed)
    assert isinstance(truncated, Completed)
    assert isinstance(unknown, Completed)
    assert isinstance(scanned, Completed)
    assert Report.from_json(good.payload).outcome is Outcome.OK
    assert Report.from_json(truncated.payload).outcome is Outcome.CORRUPT
    assert Report.from_json(unknown.payload).format is None
    assert scanned.payload == {"complete": True, "signatures": RULES_VERSION}
