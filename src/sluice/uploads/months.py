"""Calendar months in UTC, by which plans count. Which one it is, the database says (`db.moments`); how many uploads a plan has is a setting."""

from datetime import UTC, datetime


def seconds_to_next_month(now: datetime) -> float:
    """Answer the time until the next calendar month in UTC begins."""
    at = now.astimezone(UTC)
    following = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return (following - at).total_seconds()
