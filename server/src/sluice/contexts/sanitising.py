"""What a context has taken out of every file before it is stored.

It is the field `sanitise` of the interface, and stored as it is sent. How it is done is in `uploads.sanitising`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Removal = Literal["metadata", "active_content", "pixels"]
# What happens to what was sent, if the file that is stored is another one.
OfOriginal = Literal["drop", "quarantine"]
# What happens to a file whose signature would be broken.
IfSigned = Literal["reject", "change"]


def _each_once(removals: list[Removal]) -> list[Removal]:
    if len(set(removals)) < len(removals):
        raise ValueError("expected each removal once")
    return sorted(removals)


class Sanitise(BaseModel):
    """What is taken out of every file of a context; what is stored is the file without it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    remove: Annotated[
        list[Removal],
        Field(
            min_length=1,
            description="`metadata` (position, camera, author, dates), `active_content` (macros, scripts, actions, "
            "embedded files, external links) and `pixels` (all but the pixels).",
        ),
        AfterValidator(_each_once),
    ]
    original: Annotated[
        OfOriginal,
        Field(
            description="What happens to what was sent if something was taken out of it: `drop`, or `quarantine` (it "
            "is kept there as a file of its own that counts against the quota and is never released)."
        ),
    ] = "drop"
    signed: Annotated[
        IfSigned,
        Field(
            description="What happens to a document whose signature this would break: `reject`, or `change` (it is "
            "stored without a valid signature)."
        ),
    ] = "reject"

    def to_json(self) -> dict[str, Any]:
        """Return the value as it is stored and shown."""
        return self.model_dump(mode="json")


def sanitise_of(stored: Mapping[str, Any] | None) -> Sanitise | None:
    """Return the value that `to_json` wrote; None means that files are stored as they are sent."""
    return Sanitise.model_validate(stored) if stored else None
