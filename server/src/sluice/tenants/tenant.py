"""The value of a tenant. What may be done with one is in `service`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Plan = Literal["free", "unlimited"]
TenantStatus = Literal["active", "suspended", "deleted"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant. Plan `free` has a monthly limit of uploads; credentials of a suspended or deleted tenant are refused.

    A deleted one keeps its row, for its audit log, and never comes back.
    """

    tenant_id: str
    name: str
    plan: Plan
    status: TenantStatus
    created_at: datetime
