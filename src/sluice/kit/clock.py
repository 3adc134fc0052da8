"""Time as the service tells it: aware, UTC. Reading the clock happens here, so that a test can hold it still."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Answer the present moment, aware and in UTC."""
    return datetime.now(UTC)


def iso_z(moment: datetime) -> str:
    """Answer `moment` as ISO 8601 in UTC with a `Z`, to the millisecond: the one form that leaves the service."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
