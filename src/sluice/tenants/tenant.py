"""The value of a tenant. What may be done with one is in `service`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Plan = Literal["free", "unlimited"]
TenantStatus = Literal["active", "suspended"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant. Plan `free` has a monthly limit of uploads; a suspended tenant's credentials are refused."""

    tenant_id: str
    name: str
    plan: Plan
    status: TenantStatus
    created_at: datetime
