"""Who does things in tests that call a service and not the API."""

from sluice.access import operator
from sluice.trail import Deed


def deed_of(tenant_id: str) -> Deed:
    """Answer what somebody at the machine sets out to do to things of a tenant."""
    return Deed(operator(tenant_id, "tests"), "thing.tested")
