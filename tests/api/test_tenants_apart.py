"""Two tenants, and every route that takes an id: another tenant's answers byte for byte as one that never was, with keys and with tokens."""

from dataclasses import dataclass
from typing import Any

import pytest

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.answers import data, refused, unauthenticated, without_time
from tests.api.samples import TEXT
from tests.gate import API, Gate, Service

KINDS = ["key", "token"]
UNKNOWN = {
    "context_key": "never_was",
    "file_id": "file_01hzzzzzzzzzzzzzzzzzzzzzzz",
    "api_key_id": "key_01hzzzzzzzzzzzzzzzzzzzzzzz",
    "config_id": "bkt_01hzzzzzzzzzzzzzzzzzzzzzzz",
    "tenant_id": "ten_01hzzzzzzzzzzzzzzzzzzzzzzz",
}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", "/contexts/{context_key}"): {"display_name": "mine now"},
    ("PATCH", "/api-keys/{api_key_id}"): {"status": "disabled"},
    ("PATCH", "/tenants/{tenant_id}/storage-configs/{config_id}"): {"name": "mine now"},
    ("POST", "/tenants/{tenant_id}/storage-configs"): {
        "name": "one",
        "access_key_id": "A" * 16,
        "secret_access_key": "secret",
        "default_bucket": "bucket",
    },
}
"""What routes that read a body are sent, so that it is the id and not the body that is judged."""
ROUTES = sorted((method, path.removeprefix(API)) for method, path in ROUTE_SCOPES)
WITH_IDS = [route for route in ROUTES if "{" in route[1]]


@dataclass(frozen=True)
class Owner:
    """A tenant that has one of everything."""

    gate: Gate
    ids: dict[str, str]


@pytest.fixture(scope="module")
def owner(service: Service) -> Owner:
    gate = service.new_gate().with_store()
    context = gate.context(context_key="of_the_owner")
    buckets = data(gate.get(gate.buckets))
    ids = {
        "context_key": context,
        "file_id": gate.store(context=context),
        "api_key_id": gate.key("metadata").api_key_id,
        # a tenant that stores in the service's own folder has none: then a made-up id stands for it
        "config_id": buckets[0]["config_id"] if buckets else "bkt_01haaaaaaaaaaaaaaaaaaaaaaa",
        "tenant_id": gate.tenant_id,
    }
    return Owner(gate, ids)


def as_kind(gate: Gate, kind: str, scope: str) -> Gate:
    return gate.as_(gate.key(scope)) if kind == "key" else gate.as_(gate.token(scope=scope))


@pytest.fixture(scope="module")
def callers(lobby: Gate) -> dict[tuple[str, str], Gate]:
    return {(kind, scope.value): as_kind(lobby, kind, scope.value) for kind in KINDS for scope in Scope}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("route", WITH_IDS, ids=" ".join)
@pytest.mark.asvs("8.2.2", "8.4.1")
def test_another_tenants_id_answers_byte_for_byte_as_an_unknown_one(
    callers: dict[tuple[str, str], Gate], owner: Owner, route: tuple[str, str], kind: str
) -> None:
    method, path = route
    caller = callers[kind, "admin"]
    more = {"json": BODIES[route]} if route in BODIES else {}
    # in the path of the caller's own tenant too: a foreign bucket must not be found there either
    for tenant_id in (owner.ids["tenant_id"], caller.tenant_id):
        foreign = caller.ask(method, path.format_map(owner.ids | {"tenant_id": tenant_id}), **more)
        unknown_tenant = UNKNOWN["tenant_id"] if tenant_id == owner.ids["tenant_id"] else tenant_id
        unknown = caller.ask(method, path.format_map(UNKNOWN | {"tenant_id": unknown_tenant}), **more)
        assert without_time(foreign) == without_time(unknown)
        if path.endswith("}") or tenant_id != caller.tenant_id:
            assert foreign.status_code == 404


def test_after_all_of_that_the_owner_has_what_it_had(owner: Owner) -> None:
    for path in ("/contexts/{context_key}", "/files/{file_id}/metadata", "/api-keys/{api_key_id}"):
        data(owner.gate.get(path.format_map(owner.ids)))
    assert data(owner.gate.get(f"/api-keys/{owner.ids['api_key_id']}"))["status"] == "active"
    assert data(owner.gate.get(f"/contexts/{owner.ids['context_key']}"))["display_name"] == "Tests"


def test_an_upload_into_another_tenants_context_answers_as_into_an_unknown_one(lobby: Gate, owner: Owner) -> None:
    foreign = lobby.upload(content=TEXT, context=owner.ids["context_key"])
    assert without_time(foreign) == without_time(lobby.upload(content=TEXT, context=UNKNOWN["context_key"]))
    assert foreign.status_code == 404


@pytest.mark.parametrize("path", ["/contexts", "/files", "/api-keys"])
def test_no_list_shows_another_tenants_things(lobby: Gate, owner: Owner, path: str) -> None:
    shown = lobby.get(path, page_size=100).text
    assert not [known for known in owner.ids.values() if known in shown]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("held", [scope.value for scope in Scope])
@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
@pytest.mark.asvs("8.2.1", "6.3.4", "6.1.3")
def test_every_route_opens_to_its_scope_alone(
    callers: dict[tuple[str, str], Gate], route: tuple[str, str], held: str, kind: str
) -> None:
    method, path = route
    needed = ROUTE_SCOPES[method, API + path]
    caller = callers[kind, held]
    answer = caller.ask(method, path.format_map(UNKNOWN | {"tenant_id": caller.tenant_id}))
    if needed is None or held in {needed.value, "admin"}:
        assert answer.status_code not in {401, 403}, answer.text
    else:
        refused(answer, 403, f"{needed.value.capitalize()} scope required", "Insufficient permissions")


@pytest.mark.asvs("10.3.3", "6.8.1")
def test_two_issuers_that_name_one_subject_name_two_users(gate: Gate) -> None:
    """The other issuer's file is put there by hand: a service with two issuers is run in `test_oidc_provider`."""
    context = gate.context()
    gate.as_(gate.token(sub="user-7", scope="upload")).store("mine.txt", context=context)
    other = gate.as_(gate.token(sub="user-7", scope="upload")).store("theirs.txt", context=context)
    # Off its list, changed, and on again: nobody changes the uploader of a file that is on a list, so only then is it counted anew.
    for change in ("state = 'deleted'", "uploaded_by = 'https://other.example|user-7'", "state = 'stored'"):
        gate.sql(f"UPDATE files SET {change} WHERE file_id = :file", file=other)
    shown = data_names(gate, "sluice|user-7"), data_names(gate, "https://other.example|user-7"), data_names(gate, "user-7")
    assert shown == (["mine.txt"], ["theirs.txt"], [])


def data_names(gate: Gate, uploaded_by: str) -> list[str]:
    return [item["original_filename"] for item in gate.get("/files", uploaded_by=uploaded_by).json()["data"]]


def test_a_subject_shaped_like_a_keys_id_is_not_taken_for_that_key(gate: Gate) -> None:
    context = gate.context()
    key = gate.key("upload")
    gate.as_(gate.token(sub=key.api_key_id, scope="upload")).store("forged.txt", context=context)
    assert data_names(gate, key.api_key_id) == []


@pytest.mark.asvs("7.4.1")
def test_a_revoked_key_is_refused_at_once_by_every_process(gate: Gate, second: Service) -> None:
    elsewhere = Gate(second, gate.tenant_id, gate.authorization)
    key = gate.key("metadata")
    data_or_list = elsewhere.as_(key).get("/contexts")
    assert data_or_list.status_code == 200
    data(gate.delete(f"/api-keys/{key.api_key_id}"))
    unauthenticated(elsewhere.as_(key).get("/contexts"))
    unauthenticated(gate.as_(key).get("/contexts"))
