"""The file whose facts are measured, with what its examination said."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluice_inspect.report import Limits, Measure, Outcome
from sluice_inspect.source import Source


@dataclass(frozen=True, slots=True)
class Subject:
    """`format_name` and `content_type` are those of the content, `extension` that of its name."""

    source: Source
    format_name: str
    content_type: str
    extension: str
    limits: Limits
    integrity: Outcome
    measures: Mapping[str, Measure]  # of the examination; empty if it failed

    def count(self, name: str) -> int | None:
        """Return a measure of the examination that is a whole number, or None."""
        value = self.measures.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None
