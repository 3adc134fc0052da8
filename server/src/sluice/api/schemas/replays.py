"""Bodies of a replay: the change of a context's rules, and what it would have done to earlier uploads."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field

from sluice.api.schemas.contexts import RuleChanges
from sluice.api.schemas.envelope import RequestBody, ResponseBody
from sluice.api.schemas.moment import Moment
from sluice.uploads.reasons import Reason
from sluice.uploads.replay import WHY, Group, Replay, Unknown


class ReplayRequest(RequestBody):
    """A change of rules that is tried on earlier uploads."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"changes": {"policies": {"document": {"max_pages": 100}}}, "since": "7d"}]}
    )

    changes: RuleChanges = Field(description="Rules of the context to be changed; those not sent stay as they are.")
    since: Annotated[
        Moment, Field(description="The earliest upload: a time ago (`7d`), or a moment.", validate_default=True)
    ] = "7d"  # type: ignore[assignment]  # read as every moment that is sent


class ReplaySample(ResponseBody):
    """One of the uploads that a group counts."""

    report_id: str = Field(description="Id of its report.")
    filename: str = Field(description="Name of the file.")
    size_bytes: int = Field(description="Size of the file, or the bytes that came until it was rejected.")


class ReplayGroup(ResponseBody):
    """Uploads with the same reason code, the most frequent first."""

    reason: Reason = Field(description="The reason code.")
    count: int = Field(description="How many uploads there are.")
    samples: list[ReplaySample] = Field(description="The first of them, at most five.")


class ReplayCause(ResponseBody):
    """The reasons why uploads could not be judged."""

    code: Unknown = Field(description="The cause, for programs.")
    detail: str = Field(description="The cause, for people.")
    count: int = Field(description="How many uploads it concerns.")


class ReplayUnknown(ResponseBody):
    """The uploads whose outcome is unknown, because a fact was not measured."""

    count: int = Field(description="How many there are.")
    because: list[ReplayCause] = Field(description="Why, the most frequent cause first.")


class ReplayOut(ResponseBody):
    """The outcome that earlier uploads would have had."""

    since: datetime = Field(description="Uploads at this moment or later were judged.")
    judged: int = Field(description="How many uploads were judged: the sum of all counts below.")
    unchanged: int = Field(description="The same verdict, for the same reason.")
    would_reject: list[ReplayGroup] = Field(description="Not rejected then, by the reason why they would be now.")
    would_accept: list[ReplayGroup] = Field(description="Not accepted then, by the reason of that time.")
    would_quarantine: list[ReplayGroup] = Field(description="Not in quarantine then, by the reason of the new verdict.")
    other_reason: list[ReplayGroup] = Field(
        description="Rejected or in quarantine then and now, by the new reason, which is another one."
    )
    unknown: ReplayUnknown = Field(description="Uploads that cannot be judged by the changed rules.")
    truncated: bool = Field(description="Whether there were more uploads than one replay judges; the newest were.")

    @classmethod
    def of(cls, replay: Replay, since: datetime, *, truncated: bool) -> "ReplayOut":
        """Return the sums of a replay."""
        causes = sorted(replay.unknown.items(), key=lambda each: -each[1])
        because = [ReplayCause(code=code, detail=WHY[code], count=count) for code, count in causes]
        return cls(
            since=since,
            judged=replay.judged,
            unchanged=replay.unchanged,
            would_reject=_groups(replay.would_reject),
            would_accept=_groups(replay.would_accept),
            would_quarantine=_groups(replay.would_quarantine),
            other_reason=_groups(replay.other_reason),
            unknown=ReplayUnknown(count=sum(replay.unknown.values()), because=because),
            truncated=truncated,
        )


def _groups(groups: Mapping[Reason, Group]) -> list[ReplayGroup]:
    by_count = sorted(groups.items(), key=lambda each: -each[1].count)
    return [
        ReplayGroup(
            reason=reason,
            count=group.count,
            samples=[ReplaySample.model_validate(sample) for sample in group.samples],
        )
        for reason, group in by_count
    ]
