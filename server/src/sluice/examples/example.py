"""The values of examples: what is kept of a document, and all examples of a context."""

from dataclasses import dataclass
from datetime import datetime

from sluice.contexts import Context
from sluice_inspect.document_kinds import DocumentKind, Features
from sluice_inspect.sandbox.kinds import ExampleText


@dataclass(frozen=True, slots=True)
class ExampleDraft:
    """A document that was read, to be added as an example."""

    filename: str
    sha256: str
    size_bytes: int
    content_type: str
    text: ExampleText


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a context, by the file that it was read from."""

    example_id: str
    filename: str
    sha256: str
    size_bytes: int
    content_type: str
    created_at: datetime
    features: Features


@dataclass(frozen=True, slots=True)
class ExampleSet:
    """All examples of a context, the oldest first, and what they have in common."""

    context: Context
    examples: tuple[Example, ...]

    @property
    def kind(self) -> DocumentKind:
        """What they have in common."""
        return self.context.document_kind or DocumentKind("few", len(self.examples))
