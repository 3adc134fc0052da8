"""The decision log: one row for every verdict on an upload, and for every later scan of a stored file."""

from sluice.decisions.record import (
    LINK_UPLOADERS,
    DecisionFilter,
    DecisionRecord,
    FailedSum,
    Mark,
    MarkState,
    PastDecision,
)

__all__ = ["LINK_UPLOADERS", "DecisionFilter", "DecisionRecord", "FailedSum", "Mark", "MarkState", "PastDecision"]
