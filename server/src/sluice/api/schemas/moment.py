"""A moment in a body or a query parameter: a date and time with a zone, or a time ago."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field, WithJsonSchema

EXPECTED_MOMENT: Final = (
    "expected a moment with a zone such as 2026-01-31T12:00:00Z, or a time ago such as 30m, 12h, 7d, 2w"
)
_AGO: Final = re.compile("([1-9][0-9]{0,3})([mhdw])", re.ASCII)
_UNITS: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def moment_ago(text: str, now: datetime) -> datetime | None:
    """Return the moment that a text such as `7d` names, counted back from `now`; None if it names no time ago."""
    ago = _AGO.fullmatch(text)
    return None if ago is None else now - int(ago[1]) * _UNITS[ago[2]]


def _read(value: object) -> object:
    if isinstance(value, str):
        ago = moment_ago(value, datetime.now(UTC))
        if ago is not None:
            return ago
        if "-" in value.lstrip("-"):  # and no number of seconds since 1970
            return value
    raise ValueError(EXPECTED_MOMENT)


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as fault:
        raise ValueError("expected a moment in the years 1 to 9999 of UTC") from fault


Moment = Annotated[
    AwareDatetime,
    Field(strict=False),
    BeforeValidator(_read),
    AfterValidator(_in_utc),
    WithJsonSchema(
        {
            "type": "string",
            "anyOf": [{"format": "date-time"}, {"pattern": "^[1-9][0-9]{0,3}[mhdw]$"}],
            "description": "A moment with a zone, or minutes, hours, days or weeks ago (`30m`, `12h`, `7d`, `2w`).",
            "examples": ["7d", "2026-01-31T12:00:00Z"],
        }
    ),
]
