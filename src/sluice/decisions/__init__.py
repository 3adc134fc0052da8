"""The decision log: one row for every verdict on an upload, and for every later scan of a stored file."""

from sluice.decisions.record import DecisionFilter, DecisionRecord, DecisionSummary, PastDecision

__all__ = ["DecisionFilter", "DecisionRecord", "DecisionSummary", "PastDecision"]
