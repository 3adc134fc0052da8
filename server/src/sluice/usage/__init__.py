"""Usage: what a tenant uploaded, had rejected and downloaded on each day, and its limits."""

from sluice.usage.record import Limit, PlanUse, UsageRow

__all__ = ["Limit", "PlanUse", "UsageRow"]
