"""A model of two tenants: whatever they request, in any order, each tenant has exactly what the model has.

8 examples, half of them on each setup; `make state-machine` runs 500 (SLUICE_TEST_EXAMPLES).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.api.responses import assert_rejected, data, page
from tests.api.samples import noise
from tests.service import ApiClient, Key, Service

EXAMPLES = int(os.environ.get("SLUICE_TEST_EXAMPLES", "8"))
STEPS = 20
MB = 1_048_576
CONTEXTS = ("papers", "pictures")
"""Both tenants use the same names, so that a mix-up is detected."""
SIZES = (1_000, 400_000, 700_000)
QUOTA_MB = 1
UNKNOWN = "{}_01hzzzzzzzzzzzzzzzzzzzzzzz"
SCOPES = {"/files": "metadata", "/api-keys": "admin", "/contexts": None}


@dataclass
class Tenant:
    """The API client of a tenant, and what the tenant should have."""

    client: ApiClient
    contexts: dict[str, str] = field(default_factory=dict)
    """Status by context key."""
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Context and content by file id."""
    keys: dict[str, tuple[Key, str, str]] = field(default_factory=dict)
    """Key, scope and status by key id; the tenant's own first key is not included."""
    buckets: set[str] = field(default_factory=set)
    default: str = ""
    changes: int = 0
    """Number of changes that the audit log must have an entry for."""

    def used_bytes(self, context: str) -> int:
        return sum(len(content) for where, content in self.files.values() if where == context)

    def pick_id(self, ids: "list[str]", pick: int, prefix: str) -> str:
        return ids[pick % len(ids)] if ids else UNKNOWN.format(prefix)


WHO, PICK = st.integers(0, 1), st.integers(0, 1_000)
CONTEXT = st.sampled_from(CONTEXTS)


class TwoTenants(RuleBasedStateMachine):
    """Every rule lets tenant `who` request something of tenant `owner`: a 404 unless they are the same."""

    service: Service

    @initialize()
    def begin(self) -> None:
        self.tenants = [Tenant(self.service.new_client()) for _ in range(2)]
        for tenant in self.tenants:
            tenant.changes = 1  # its first key
            if self.service.deployment.gateway is not None:
                self.add_bucket(self.tenants.index(tenant), as_default=False)

    def _ask(
        self, who: int, owner: int, ask: Callable[[ApiClient], httpx.Response], *, known: bool = True
    ) -> httpx.Response | None:
        """Return the response if it must be a success; assert a 404 for an unknown or foreign id."""
        response = ask(self.tenants[who].client)
        if who == owner and known:
            return response
        assert response.status_code == 404, response.text
        return None

    # contexts

    @rule(who=WHO, context=CONTEXT)
    def create_context(self, who: int, context: str) -> None:
        tenant, rules = self.tenants[who], {"storage_quota_mb": QUOTA_MB, "scan_for_viruses": False}
        response = tenant.client.post("/contexts", {"context_key": context, "display_name": f"of {who}", **rules})
        assert response.status_code == (409 if context in tenant.contexts else 201), response.text
        if response.status_code == 201:
            tenant.contexts[context] = "active"
            tenant.changes += 1

    @rule(who=WHO, context=CONTEXT, status=st.sampled_from(["active", "inactive"]))
    def change_context(self, who: int, context: str, status: str) -> None:
        tenant, path = self.tenants[who], f"/contexts/{context}"
        known = context in tenant.contexts
        response = self._ask(who, who, lambda client: client.patch(path, {"status": status}), known=known)
        if response is not None:
            assert data(response)["status"] == status
            tenant.contexts[context] = status
            tenant.changes += 1

    # files

    @rule(who=WHO, context=CONTEXT, size=st.sampled_from(SIZES), seed=PICK)
    def upload(self, who: int, context: str, size: int, seed: int) -> None:
        tenant, content = self.tenants[who], noise(size, seed)
        status = tenant.contexts.get(context)
        response = tenant.client.upload("a.zzz", content, context=context)
        if status != "active":
            assert response.status_code == (404 if status is None else 409), response.text
        elif tenant.used_bytes(context) + size > QUOTA_MB * MB:
            assert_rejected(response, "storage_quota_exceeded")
        else:
            tenant.files[data(response, 201)["file_id"]] = (context, content)

    @rule(who=WHO, owner=WHO, pick=PICK)
    def download(self, who: int, owner: int, pick: int) -> None:
        files = self.tenants[owner].files
        file_id = self.tenants[owner].pick_id(sorted(files), pick, "file")
        response = self._ask(who, owner, lambda client: client.get(f"/files/{file_id}"), known=file_id in files)
        if response is not None:
            assert httpx.get(data(response)["download_url"], timeout=30).content == files[file_id][1]
            self.tenants[who].changes += 1

    @rule(who=WHO, owner=WHO, pick=PICK)
    def read_metadata(self, who: int, owner: int, pick: int) -> None:
        files = self.tenants[owner].files
        file_id = self.tenants[owner].pick_id(sorted(files), pick, "file")
        path = f"/files/{file_id}/metadata"
        response = self._ask(who, owner, lambda client: client.get(path), known=file_id in files)
        if response is not None:
            assert data(response)["size_bytes"] == len(files[file_id][1])

    @rule(who=WHO, owner=WHO, pick=PICK)
    def delete_file(self, who: int, owner: int, pick: int) -> None:
        files = self.tenants[owner].files
        file_id = self.tenants[owner].pick_id(sorted(files), pick, "file")
        response = self._ask(who, owner, lambda client: client.delete(f"/files/{file_id}"), known=file_id in files)
        if response is not None:
            data(response)
            del files[file_id]
            self.tenants[who].changes += 1

    # keys

    @rule(who=WHO, scope=st.sampled_from(["upload", "metadata", "admin"]))
    def create_key(self, who: int, scope: str) -> None:
        tenant = self.tenants[who]
        key = tenant.client.create_key(scope)
        tenant.keys[key.api_key_id] = (key, scope, "active")
        tenant.changes += 1

    @rule(who=WHO, owner=WHO, pick=PICK, status=st.sampled_from(["active", "disabled", "revoked"]))
    def change_key(self, who: int, owner: int, pick: int, status: str) -> None:
        keys = self.tenants[owner].keys
        key_id = self.tenants[owner].pick_id(sorted(keys), pick, "key")
        path, change = f"/api-keys/{key_id}", {"status": status}
        response = self._ask(who, owner, lambda client: client.patch(path, change), known=key_id in keys)
        if response is None:
            return
        key, scope, before = keys[key_id]
        if before == "revoked" and status != "revoked":
            assert response.status_code == 409, response.text
            return
        assert data(response)["status"] == status
        keys[key_id] = (key, scope, status)

    @rule(owner=WHO, pick=PICK, path=st.sampled_from(sorted(SCOPES)))
    def use_key(self, owner: int, pick: int, path: str) -> None:
        tenant = self.tenants[owner]
        if not tenant.keys:
            return
        key, scope, status = tenant.keys[tenant.pick_id(sorted(tenant.keys), pick, "key")]
        response = tenant.client.with_credential(key).get(path)
        allowed = SCOPES[path] in {None, scope} or scope == "admin"
        assert response.status_code == (401 if status != "active" else 200 if allowed else 403), response.text

    # buckets

    def _has_buckets(self) -> bool:
        return self.service.deployment.gateway is not None

    @precondition(_has_buckets)
    @rule(who=WHO, as_default=st.booleans())
    def add_bucket(self, who: int, *, as_default: bool) -> None:
        tenant = self.tenants[who]
        config_id = str(tenant.client.add_bucket(set_as_default=as_default)["config_id"])
        tenant.default = config_id if as_default or not tenant.buckets else tenant.default
        tenant.buckets.add(config_id)
        tenant.changes += 1

    @precondition(_has_buckets)
    @rule(who=WHO, owner=WHO, pick=PICK)
    def make_default(self, who: int, owner: int, pick: int) -> None:
        config_id = self.tenants[owner].pick_id(sorted(self.tenants[owner].buckets), pick, "bkt")
        response = self._ask(who, owner, lambda client: client.post(f"{client.buckets}/{config_id}/set-default"))
        if response is not None:
            data(response)
            self.tenants[who].default = config_id
            self.tenants[who].changes += 1

    @precondition(_has_buckets)
    @rule(who=WHO, owner=WHO, pick=PICK)
    def delete_bucket(self, who: int, owner: int, pick: int) -> None:
        """The files of a deleted bucket resolve to the default, which is the same S3 bucket here."""
        holder = self.tenants[owner]
        config_id = holder.pick_id(sorted(holder.buckets), pick, "bkt")
        response = self._ask(who, owner, lambda client: client.delete(f"{client.buckets}/{config_id}"))
        if response is not None:
            assert response.status_code == (409 if config_id == holder.default else 200), response.text
            if response.status_code == 200:
                holder.buckets.remove(config_id)
                holder.changes += 1

    # checks

    @rule(who=WHO)
    def check_everything(self, who: int) -> None:
        """Assert that the tenant sees exactly what the model has, and nothing of the other tenant."""
        tenant = self.tenants[who]
        shown = {item["file_id"]: item["context_key"] for item in page(tenant.client.get("/files", page_size=100))[0]}
        assert shown == {file_id: context for file_id, (context, _) in tenant.files.items()}
        items = page(tenant.client.get("/contexts", page_size=100))[0]
        assert {item["context_key"]: item["status"] for item in items} == tenant.contexts
        for context in tenant.contexts:
            assert tenant.client.used_bytes(context) == tenant.used_bytes(context)
        keys = {item["api_key_id"]: item["status"] for item in page(tenant.client.get("/api-keys", page_size=100))[0]}
        assert {key_id: status for key_id, (_, _, status) in tenant.keys.items()}.items() <= keys.items()
        assert len(keys) == len(tenant.keys) + 1
        buckets = {item["config_id"]: item["is_default"] for item in data(tenant.client.get(tenant.client.buckets))}
        assert buckets == {config_id: config_id == tenant.default for config_id in tenant.buckets}
        other = self.tenants[1 - who].client.tenant_id
        trail = tenant.client.get("/audit", page_size=100)
        assert other not in trail.text
        assert page(trail)[1]["total"] >= tenant.changes

    def teardown(self) -> None:
        for who in range(len(getattr(self, "tenants", ()))):
            self.check_everything(who)


@pytest.mark.engine
@pytest.mark.timeout(120 + 20 * EXAMPLES)
@pytest.mark.asvs("8.2.2", "8.4.1")
def test_two_tenants_match_the_model_and_are_isolated(service: Service) -> None:
    """The model does not depend on the store: it holds for a folder and for S3."""
    machine = type("Machine", (TwoTenants,), {"service": service})
    size: dict[str, Any] = {"max_examples": EXAMPLES // 2, "stateful_step_count": STEPS}
    allowed = settings(**size, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=allowed)
