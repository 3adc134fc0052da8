"""Bodies of the endpoints of the examples of a context."""

from datetime import datetime
from typing import Any, Final, Self

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody
from sluice.examples import Example, ExampleSet
from sluice_inspect.document_kinds import KindState

_WORDS_MOST: Final = 20
EXAMPLE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary", "description": "The example."}},
                }
            }
        },
    }
}


class ExampleOut(ResponseBody):
    """An example, by the file that it was read from, which is not kept."""

    example_id: str
    filename: str = Field(description="Name of the file.")
    sha256: str = Field(description="SHA-256 of the file.")
    size_bytes: int
    content_type: str
    created_at: datetime


class KindOut(ResponseBody):
    """What the examples of a context have in common."""

    state: KindState = Field(
        description="`ready`, or why nothing is compared: `few` (fewer than three), `alike` (copies of fewer than "
        "three documents) or `different` (too little in common)."
    )
    digest: str | None = Field(
        description="What tells it from all others; reports have it. Null if nothing is compared."
    )
    cohesion: int = Field(
        description="How alike the examples are to each other, of 100. The higher, the more reliably others are "
        "distinguished."
    )
    words: list[str] = Field(
        description="The words that matter most, of those that at least half of the examples have. Reports show them."
    )

    @classmethod
    def of_set(cls, found: ExampleSet) -> Self:
        """Return what the examples have in common."""
        kind = found.kind
        return cls(
            state=kind.state,
            digest=kind.digest if kind.is_ready else None,
            cohesion=round(100 * kind.base),
            words=list(kind.words[:_WORDS_MOST]),
        )


class ExamplesOut(ResponseBody):
    """The examples of a context, the oldest first."""

    examples: list[ExampleOut] = Field(description="At most 30.")
    kind: KindOut = Field(description="What they have in common.")
    rules_version: int = Field(description="Version of the context's rules, which each change of the examples raises.")

    @classmethod
    def of(cls, found: ExampleSet) -> Self:
        """Return the examples of a context."""
        return cls(
            examples=[ExampleOut.model_validate(each) for each in found.examples],
            kind=KindOut.of_set(found),
            rules_version=found.context.rules_version,
        )


class ExampleAdded(ResponseBody):
    """The example that was added, and what all have in common now."""

    example: ExampleOut = Field(description="The example.")
    examples: int = Field(description="How many there are now.")
    kind: KindOut = Field(description="What all have in common now.")
    rules_version: int

    @classmethod
    def of_added(cls, example: Example, found: ExampleSet) -> Self:
        """Return what an example changed."""
        return cls(
            example=ExampleOut.model_validate(example),
            examples=len(found.examples),
            kind=KindOut.of_set(found),
            rules_version=found.context.rules_version,
        )
