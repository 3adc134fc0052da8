"""The clock of the service, in UTC. Injected wherever time matters, so that tests can stop it."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the current time, aware and in UTC."""
    return datetime.now(UTC)


def iso_z(moment: datetime) -> str:
    """Return `moment` as ISO 8601 in UTC with a `Z`, to the millisecond: the only format of the interface."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
