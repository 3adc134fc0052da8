"""The audit trail: who did what to a tenant's things, and when.

Uploads have a record of their own, the decision log of `uploads`.
"""

from sluice.audit.entry import AuditAction, AuditChange, AuditEntry, AuditFilter, Outcome

__all__ = ["AuditAction", "AuditChange", "AuditEntry", "AuditFilter", "Outcome"]
