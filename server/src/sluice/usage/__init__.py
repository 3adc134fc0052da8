"""Usage: what a tenant uploaded, had rejected and downloaded on each day, and its limits."""

from sluice.usage.record import MOST_COUNTED, Backlog, Limit, PlanUse, UsageRow

__all__ = ["MOST_COUNTED", "Backlog", "Limit", "PlanUse", "UsageRow"]
