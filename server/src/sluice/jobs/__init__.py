"""Jobs: work on many files that a request asks for and the worker does, a bounded step at a time."""

from sluice.jobs.job import KINDS, BulkKind, Export, ExportFormat, Job, JobKind, JobState

__all__ = ["KINDS", "BulkKind", "Export", "ExportFormat", "Job", "JobKind", "JobState"]
