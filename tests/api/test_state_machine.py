"""The API as a model of two tenants: whatever they do, in whatever order and with whose ids, each has what the model says and nothing else.

50 examples here, half of them on each setup; `make state-machine` runs 500 (SLUICE_TEST_EXAMPLES).
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from tests.api.answers import data, page, rejected
from tests.api.samples import noise
from tests.gate import Gate, Key, Service

EXAMPLES = int(os.environ.get("SLUICE_TEST_EXAMPLES", "50"))
STEPS = 20
MB = 1_048_576
CONTEXTS = ("papers", "pictures")
"""Both tenants use the same names: a mix-up would be seen."""
SIZES = (1_000, 400_000, 700_000)
QUOTA_MB = 1
UNKNOWN = "{}_01hzzzzzzzzzzzzzzzzzzzzzzz"
SCOPES = {"/files": "metadata", "/api-keys": "admin", "/contexts": None}


@dataclass
class Tenant:
    """One tenant's gate, and what the tenant should have."""

    gate: Gate
    contexts: dict[str, str] = field(default_factory=dict)
    """Status by key."""
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Context and content by id."""
    keys: dict[str, tuple[Key, str, str]] = field(default_factory=dict)
    """Key, scope and status by id; the tenant's own first key is not among them."""
    buckets: set[str] = field(default_factory=set)
    default: str = ""
    changes: int = 0
    """What the audit trail should have an entry for."""

    def used(self, context: str) -> int:
        return sum(len(content) for where, content in self.files.values() if where == context)

    def one_of(self, ids: "list[str]", pick: int, prefix: str) -> str:
        return ids[pick % len(ids)] if ids else UNKNOWN.format(prefix)


WHO, PICK = st.integers(0, 1), st.integers(0, 1_000)
CONTEXT = st.sampled_from(CONTEXTS)


class TwoTenants(RuleBasedStateMachine):
    """Every rule lets the tenant `who` ask for a thing of the tenant `whose`: a success where they are one, else as if it never was."""

    service: Service

    @initialize()
    def begin(self) -> None:
        self.tenants = [Tenant(self.service.new_gate()) for _ in range(2)]
        for tenant in self.tenants:
            tenant.changes = 1  # its first key
            if self.service.place.gateway is not None:
                self.add_bucket(self.tenants.index(tenant), as_default=False)

    def _ask(self, who: int, whose: int, ask: Callable[[Gate], httpx.Response], *, known: bool = True) -> httpx.Response | None:
        """Answer the answer if it must be a success; one about what is not there, or another's, must be 404."""
        answer = ask(self.tenants[who].gate)
        if who == whose and known:
            return answer
        assert answer.status_code == 404, answer.text
        return None

    # contexts

    @rule(who=WHO, context=CONTEXT)
    def create_context(self, who: int, context: str) -> None:
        tenant = self.tenants[who]
        body = {"context_key": context, "display_name": f"of {who}", "storage_quota_mb": QUOTA_MB, "scan_for_viruses": False}
        answer = tenant.gate.post("/contexts", body)
        assert answer.status_code == (409 if context in tenant.contexts else 201), answer.text
        if answer.status_code == 201:
            tenant.contexts[context] = "active"
            tenant.changes += 1

    @rule(who=WHO, context=CONTEXT, status=st.sampled_from(["active", "inactive"]))
    def change_context(self, who: int, context: str, status: str) -> None:
        tenant = self.tenants[who]
        change = {"status": status}
        answer = self._ask(who, who, lambda gate: gate.patch(f"/contexts/{context}", change), known=context in tenant.contexts)
        if answer is not None:
            assert data(answer)["status"] == status
            tenant.contexts[context] = status
            tenant.changes += 1

    # files

    @rule(who=WHO, context=CONTEXT, size=st.sampled_from(SIZES), seed=PICK)
    def upload(self, who: int, context: str, size: int, seed: int) -> None:
        tenant, content = self.tenants[who], noise(size, seed)
        status = tenant.contexts.get(context)
        answer = tenant.gate.upload("a.zzz", content, context=context)
        if status != "active":
            assert answer.status_code == (404 if status is None else 409), answer.text
        elif tenant.used(context) + size > QUOTA_MB * MB:
            rejected(answer, "storage_quota_exceeded")
        else:
            tenant.files[data(answer, 201)["file_id"]] = (context, content)

    @rule(who=WHO, whose=WHO, pick=PICK)
    def download(self, who: int, whose: int, pick: int) -> None:
        files = self.tenants[whose].files
        file_id = self.tenants[whose].one_of(sorted(files), pick, "file")
        answer = self._ask(who, whose, lambda gate: gate.get(f"/files/{file_id}"), known=file_id in files)
        if answer is not None:
            assert httpx.get(data(answer)["download_url"], timeout=30).content == files[file_id][1]
            self.tenants[who].changes += 1

    @rule(who=WHO, whose=WHO, pick=PICK)
    def read_metadata(self, who: int, whose: int, pick: int) -> None:
        files = self.tenants[whose].files
        file_id = self.tenants[whose].one_of(sorted(files), pick, "file")
        answer = self._ask(who, whose, lambda gate: gate.get(f"/files/{file_id}/metadata"), known=file_id in files)
        if answer is not None:
            assert data(answer)["size_bytes"] == len(files[file_id][1])

    @rule(who=WHO, whose=WHO, pick=PICK)
    def delete_file(self, who: int, whose: int, pick: int) -> None:
        files = self.tenants[whose].files
        file_id = self.tenants[whose].one_of(sorted(files), pick, "file")
        answer = self._ask(who, whose, lambda gate: gate.delete(f"/files/{file_id}"), known=file_id in files)
        if answer is not None:
            data(answer)
            del files[file_id]
            self.tenants[who].changes += 1

    # keys

    @rule(who=WHO, scope=st.sampled_from(["upload", "metadata", "admin"]))
    def create_key(self, who: int, scope: str) -> None:
        tenant = self.tenants[who]
        key = tenant.gate.key(scope)
        tenant.keys[key.api_key_id] = (key, scope, "active")
        tenant.changes += 1

    @rule(who=WHO, whose=WHO, pick=PICK, status=st.sampled_from(["active", "disabled", "revoked"]))
    def change_key(self, who: int, whose: int, pick: int, status: str) -> None:
        keys = self.tenants[whose].keys
        key_id = self.tenants[whose].one_of(sorted(keys), pick, "key")
        change = {"status": status}
        answer = self._ask(who, whose, lambda gate: gate.patch(f"/api-keys/{key_id}", change), known=key_id in keys)
        if answer is None:
            return
        key, scope, before = keys[key_id]
        if before == "revoked" and status != "revoked":
            assert answer.status_code == 409, answer.text
            return
        assert data(answer)["status"] == status
        keys[key_id] = (key, scope, status)

    @rule(whose=WHO, pick=PICK, path=st.sampled_from(sorted(SCOPES)))
    def use_key(self, whose: int, pick: int, path: str) -> None:
        tenant = self.tenants[whose]
        if not tenant.keys:
            return
        key, scope, status = tenant.keys[tenant.one_of(sorted(tenant.keys), pick, "key")]
        answer = tenant.gate.as_(key).get(path)
        allowed = SCOPES[path] in {None, scope} or scope == "admin"
        assert answer.status_code == (401 if status != "active" else 200 if allowed else 403), answer.text

    # buckets

    def _has_buckets(self) -> bool:
        return self.service.place.gateway is not None

    @precondition(_has_buckets)
    @rule(who=WHO, as_default=st.booleans())
    def add_bucket(self, who: int, *, as_default: bool) -> None:
        tenant = self.tenants[who]
        config_id = str(tenant.gate.bucket(set_as_default=as_default)["config_id"])
        tenant.default = config_id if as_default or not tenant.buckets else tenant.default
        tenant.buckets.add(config_id)
        tenant.changes += 1

    @precondition(_has_buckets)
    @rule(who=WHO, whose=WHO, pick=PICK)
    def make_default(self, who: int, whose: int, pick: int) -> None:
        config_id = self.tenants[whose].one_of(sorted(self.tenants[whose].buckets), pick, "bkt")
        answer = self._ask(who, whose, lambda gate: gate.post(f"{gate.buckets}/{config_id}/set-default"))
        if answer is not None:
            data(answer)
            self.tenants[who].default = config_id
            self.tenants[who].changes += 1

    @precondition(_has_buckets)
    @rule(who=WHO, whose=WHO, pick=PICK)
    def delete_bucket(self, who: int, whose: int, pick: int) -> None:
        """Its files then resolve to the default, which is another folder or the same: here all have the same."""
        owner = self.tenants[whose]
        config_id = owner.one_of(sorted(owner.buckets), pick, "bkt")
        answer = self._ask(who, whose, lambda gate: gate.delete(f"{gate.buckets}/{config_id}"))
        if answer is not None:
            assert answer.status_code == (409 if config_id == owner.default else 200), answer.text
            if answer.status_code == 200:
                owner.buckets.remove(config_id)
                owner.changes += 1

    # looking

    @rule(who=WHO)
    def look(self, who: int) -> None:
        """Everything that the tenant is shown is what the model has: no more, no less, nothing of the other."""
        tenant = self.tenants[who]
        shown = {item["file_id"]: item["context_key"] for item in page(tenant.gate.get("/files", page_size=100))[0]}
        assert shown == {file_id: context for file_id, (context, _) in tenant.files.items()}
        contexts = {item["context_key"]: item["status"] for item in page(tenant.gate.get("/contexts", page_size=100))[0]}
        assert contexts == tenant.contexts
        for context in contexts:
            assert tenant.gate.used(context) == tenant.used(context)
        keys = {item["api_key_id"]: item["status"] for item in page(tenant.gate.get("/api-keys", page_size=100))[0]}
        assert {key_id: status for key_id, (_, _, status) in tenant.keys.items()}.items() <= keys.items()
        assert len(keys) == len(tenant.keys) + 1
        buckets = {item["config_id"]: item["is_default"] for item in data(tenant.gate.get(tenant.gate.buckets))}
        assert buckets == {config_id: config_id == tenant.default for config_id in tenant.buckets}
        other = self.tenants[1 - who].gate.tenant_id
        trail = tenant.gate.get("/audit", page_size=100)
        assert other not in trail.text
        assert page(trail)[1]["total"] >= tenant.changes

    def teardown(self) -> None:
        for who in range(len(getattr(self, "tenants", ()))):
            self.look(who)


@pytest.mark.timeout(120 + 20 * EXAMPLES)
@pytest.mark.asvs("8.2.2", "8.4.1")
def test_two_tenants_have_what_the_model_says_and_nothing_of_each_other(service: Service) -> None:
    """The settings' store is no matter of the model: it holds for a folder and for S3."""
    machine = type("Machine", (TwoTenants,), {"service": service})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES // 2,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
