"""The jobs of the product in a locked child: the self-test passes, a good file passes, a broken one is named. Formats are tested with the formats."""

import io
from collections.abc import Callable

from PIL import Image, ImageDraw

from sluice.engines.sandbox.launch import DEFAULT_JOBS
from sluice.engines.sandbox.protocol import Ran
from sluice.formats.verdict import Outcome, Report
from sluice.kit.sealed import Sealed
from sluice.threats import RULES_VERSION
from tests.engines.sandbox.conftest import Opener, Runner


def _picture() -> bytes:
    image = Image.new("RGB", (120, 80), "white")
    ImageDraw.Draw(image).ellipse((20, 10, 90, 70), fill="navy")
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


async def test_every_format_passes_the_self_test_and_files_are_judged(
    open_sandbox: Opener, run: Runner, seal: Callable[[bytes], Sealed]
) -> None:
    sandbox = await open_sandbox(jobs=DEFAULT_JOBS)
    good = await run(sandbox, "check", filename="a.png", sealed=seal(_picture()))
    torn = await run(sandbox, "check", filename="a.png", sealed=seal(_picture()[:-60]))
    unknown = await run(sandbox, "check", filename="a.unknown", sealed=seal(bytes(range(256))))
    scanned = await run(sandbox, "scan", filename="a.png", sealed=seal(_picture()))
    assert isinstance(good, Ran)
    assert isinstance(torn, Ran)
    assert isinstance(unknown, Ran)
    assert isinstance(scanned, Ran)
    assert Report.from_json(good.payload).outcome is Outcome.OK
    assert Report.from_json(torn.payload).outcome is Outcome.CORRUPT
    assert Report.from_json(unknown.payload).format is None
    assert scanned.payload == {"complete": True, "signatures": RULES_VERSION}
