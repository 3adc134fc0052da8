"""The audit trail: who did what to a tenant's things, and when. Uploads have a record of their own, the decision log of `uploads`."""

from sluice.trail.event import Deed, Event, Outcome

__all__ = ["Deed", "Event", "Outcome"]
