"""The audit action of tests that call a service directly and not through the API."""

from sluice.access import operator
from sluice.audit import AuditAction


def operator_action(tenant_id: str) -> AuditAction:
    """Return the action of an operator on data of a tenant."""
    return AuditAction(operator(tenant_id, "tests"), "thing.tested")
