"""The filters that lists of the console share, and the export of a filtered list."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, TypeVar

from starlette.responses import Response, StreamingResponse

from sluice.api.schemas.moment import moment_ago
from sluice.console.visit import HEADERS, Visit
from sluice.errors import Invalid
from sluice.kit.paging import Slice, SliceRequest
from sluice.kit.spreadsheet import csv_line

T = TypeVar("T")
NOTHING: Final[Slice[Any]] = Slice((), has_newer=False, has_older=False)
MOST_EXPORTED: Final = 100_000
_BATCH: Final = 500
# Moments are compared by the millisecond.
_TICK: Final = timedelta(milliseconds=1)
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) *(B|KB|MB|GB|TB|)", re.ASCII | re.IGNORECASE)
_DURATION: Final = re.compile(r"([0-9]{1,9}) *(s|m|min|h|d|)", re.ASCII | re.IGNORECASE)
_SECONDS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_UNITS: Final = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


@dataclass(frozen=True, slots=True)
class Period:
    """The time of a list: from the moment `since` on and before the moment `before`; None is no limit."""

    since: datetime | None = None
    before: datetime | None = None

    @property
    def until(self) -> datetime | None:
        """The last moment."""
        return None if self.before is None else self.before - _TICK


def read_period(visit: Visit, now: datetime) -> Period:
    """Return the period that the address asks for with `from` and `until`. Raise `Invalid`.

    Both may be a day, a moment (in UTC unless it names a zone), or a time ago such as `7d`, counted back from `now`.
    A day as `until` is in the period.
    """
    period = Period(_moment(visit, "from", now, is_end=False), _moment(visit, "until", now, is_end=True))
    if period.since is not None and period.before is not None and period.since >= period.before:
        raise Invalid("from: expected a moment before until")
    return period


def _moment(visit: Visit, name: str, now: datetime, *, is_end: bool) -> datetime | None:
    """Return the first moment of a period, or the first after its end."""
    text = (visit.asked(name) or "").strip()
    if not text:
        return None
    try:
        day = _day(text)
        if day is not None:
            return day + timedelta(days=1) if is_end else day
        moment = moment_ago(text, now) or datetime.fromisoformat(text)
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return aware + _TICK if is_end else aware
    except (ValueError, OverflowError) as fault:
        raise Invalid(
            f"{name}: expected a day such as 2026-01-31, a moment such as 2026-01-31T12:00, or a time ago such as 7d"
        ) from fault


def _day(text: str) -> datetime | None:
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    except ValueError:
        return None


def read_choice(visit: Visit, name: str, choices: Collection[str]) -> str | None:
    """Return the value of the address that is one of `choices`, None if it has none. Raise `Invalid`."""
    chosen = visit.asked(name)
    if chosen is not None and chosen not in choices:
        raise Invalid(f"{name}: expected one of the listed values")
    return chosen


def read_pairs(text: str) -> dict[str, str]:
    """Return the pairs of a text that has one such as `claim=C-7` on each line. Raise `Invalid`."""
    pairs = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise Invalid("metadata: expected lines such as claim=C-7")
        pairs[name.strip()] = value.strip()
    return pairs


def read_size(visit: Visit, name: str) -> int | None:
    """Return a size of the address in bytes, such as `20 MB` in units of 1,024. Raise `Invalid`."""
    text = (visit.asked(name) or "").strip()
    if not text:
        return None
    size = _SIZE.fullmatch(text)
    if size is None:
        raise Invalid(f"{name}: expected a size such as 20 MB, or a number of bytes")
    return int(float(size[1]) * _UNITS[size[2].upper()])


def read_duration(visit: Visit, name: str, label: str) -> int | None:
    """Return the seconds of a field that was sent, such as `10 min`. Raise `Invalid`."""
    text = visit.sent(name).replace(",", "")
    if not text:
        return None
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise Invalid(f"{label}: expected a time such as 10 min")
    return int(duration[1]) * _SECONDS[duration[2].lower()]


def export_csv(
    filename: str,
    columns: Sequence[str],
    load: Callable[[SliceRequest], Awaitable[Slice[T]]],
    id_of: Callable[[T], str],
    cells_of: Callable[[T], Sequence[object]],
) -> Response:
    """Return a list as CSV, at most `MOST_EXPORTED` rows, which are read while they are sent."""

    async def lines() -> AsyncIterator[str]:
        yield csv_line(columns)
        before = None
        for _ in range(MOST_EXPORTED // _BATCH):
            found = await load(SliceRequest(_BATCH, before=before))
            yield "".join(csv_line(cells_of(item)) for item in found.items)
            if not found.has_older:
                return
            before = id_of(found.items[-1])

    headers = dict(HEADERS) | {"Content-Disposition": f'attachment; filename="{filename}"'}
    return StreamingResponse(lines(), media_type="text/csv", headers=headers)
