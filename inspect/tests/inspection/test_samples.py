"""The sample of every format passes `inspect_file` under its own name."""

import io

from sluice_inspect.format import Format
from sluice_inspect.inspection import inspect_file
from sluice_inspect.registry import FORMATS
from sluice_inspect.report import Outcome, Report
from tests.rows import each_row


@each_row("kind", FORMATS, ids=lambda kind: kind.name)
def test_a_sample_is_sound_under_each_extension_and_its_report_is_valid(kind: Format) -> None:
    for extension in kind.extensions:
        report = inspect_file(io.BytesIO(kind.sample()), filename=f"sample.{extension.upper()}")
        assert (report.format, report.outcome, report.integrity) == (kind.name, Outcome.OK, Outcome.OK)
        assert (report.finding, report.blank, report.detail) == (None, False, "")
        assert report.facts.keys() <= kind.gives
        assert Report.from_json(report.to_json()) == report
