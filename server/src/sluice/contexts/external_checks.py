"""The external checks of a context: URLs that are asked about each file that nothing else rejected.

They are the field `external_checks` of the interface. How they are asked is in `uploads.external_checks`, how a file is
judged by their answers in `uploads.rules`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from sluice.contexts.policies import CheckMode, Mode

MOST_CHECKS: Final = 3
# What happens to a file if a check gives no answer: the upload gets 503, or the file is stored.
IfUnavailable = Literal["refuse", "quarantine", "accept"]


class ExternalCheckDraft(BaseModel):
    """An external check as it is sent."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[
        str, Field(max_length=40, pattern=r"^[a-z][a-z0-9_-]*$", description="Its name in reports: `external.NAME`.")
    ]
    url: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2000,
            pattern=r"^[!-~]+$",
            description="Where it is asked, by `POST`; https, under the same rules as the URLs of webhooks.",
        ),
    ]
    mode: Annotated[
        CheckMode, Field(description="What happens to a file that it rejects: `enforce`, `quarantine` or `report`.")
    ] = Mode.ENFORCE
    if_unavailable: Annotated[
        IfUnavailable,
        Field(
            description="What happens to a file without an answer: `refuse` (the upload gets 503), `quarantine`, or "
            "`accept` (it is stored, and its report says so). In mode `report` always as with `accept`."
        ),
    ] = "refuse"
    timeout_seconds: Annotated[
        int, Field(ge=1, le=60, description="Longest wait for the whole answer, in seconds.")
    ] = 10


@dataclass(frozen=True, slots=True)
class ExternalCheck:
    """One external check of a context.

    `secret` is the text of its secret, which only the response to the request that made it has.
    """

    name: str
    url: str
    mode: Mode
    if_unavailable: IfUnavailable
    timeout_seconds: int
    secret_sealed: str = field(repr=False)
    old_secret_sealed: str | None = field(default=None, repr=False)
    old_secret_until: datetime | None = None
    secret: str | None = field(default=None, repr=False, compare=False)

    @property
    def public(self) -> dict[str, Any]:
        """The fields that its owner reads and writes."""
        return {
            "name": self.name,
            "url": self.url,
            "mode": self.mode.value,
            "if_unavailable": self.if_unavailable,
            "timeout_seconds": self.timeout_seconds,
        }

    def sealed_secrets(self, now: datetime) -> Sequence[str]:
        """Return the sealed secrets that sign at `now`: the current one and, for its last day, the one before."""
        if self.old_secret_sealed is None or self.old_secret_until is None or self.old_secret_until <= now:
            return [self.secret_sealed]
        return [self.secret_sealed, self.old_secret_sealed]


def checks_to_json(checks: Iterable[ExternalCheck]) -> list[dict[str, Any]]:
    """Return the checks as they are stored."""
    return [
        check.public
        | {
            "secret_sealed": check.secret_sealed,
            "old_secret_sealed": check.old_secret_sealed,
            "old_secret_until": None if check.old_secret_until is None else check.old_secret_until.isoformat(),
        }
        for check in checks
    ]


def checks_of(stored: Sequence[Mapping[str, Any]]) -> tuple[ExternalCheck, ...]:
    """Return the checks that `checks_to_json` wrote."""
    return tuple(
        ExternalCheck(
            **{
                **each,
                "mode": Mode(each["mode"]),
                "old_secret_until": None
                if (until := each["old_secret_until"]) is None
                else datetime.fromisoformat(until),
            }
        )
        for each in stored
    )


def secret_binding(tenant_id: str, context_id: str, name: str) -> tuple[str, ...]:
    """Return what the sealed secret of a check is bound to: it cannot be opened in another place."""
    return (tenant_id, context_id, name, "external_check_secret")
