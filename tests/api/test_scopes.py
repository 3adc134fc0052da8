"""Which scope opens which route: every scope at every route. The table itself is read in `tests/test_access.py`; here it is lived."""

import pytest

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.answers import data, refused
from tests.gate import Gate, Key, Service

UPLOAD, DOWNLOAD, METADATA, DELETE, ADMIN = (scope.value for scope in Scope)

# Written out here from the decisions, not read from the product: a slip in its table must show.
TABLE = [
    ("POST", "/contexts", ADMIN),
    ("GET", "/contexts", None),
    ("GET", "/contexts/unknown", None),
    ("PATCH", "/contexts/unknown", ADMIN),
    ("POST", "/files/upload", UPLOAD),
    ("GET", "/files", METADATA),
    ("GET", "/files/file_unknown", DOWNLOAD),
    ("GET", "/files/file_unknown/metadata", METADATA),
    ("DELETE", "/files/file_unknown", DELETE),
    ("POST", "/api-keys", ADMIN),
    ("GET", "/api-keys", ADMIN),
    ("GET", "/api-keys/key_unknown", ADMIN),
    ("PATCH", "/api-keys/key_unknown", ADMIN),
    ("DELETE", "/api-keys/key_unknown", ADMIN),
    ("POST", "{buckets}", ADMIN),
    ("GET", "{buckets}", ADMIN),
    ("GET", "{buckets}/bkt_unknown", ADMIN),
    ("PATCH", "{buckets}/bkt_unknown", ADMIN),
    ("POST", "{buckets}/bkt_unknown/set-default", ADMIN),
    ("DELETE", "{buckets}/bkt_unknown", ADMIN),
    ("GET", "/audit", ADMIN),
]


@pytest.fixture(scope="module")
def keys(lobby: Gate) -> dict[str, Key]:
    return {scope: lobby.key(scope) for scope in (UPLOAD, DOWNLOAD, METADATA, DELETE, ADMIN)}


def test_the_table_here_covers_every_route() -> None:
    assert len(TABLE) == len(ROUTE_SCOPES)


@pytest.mark.parametrize("held", [UPLOAD, DOWNLOAD, METADATA, DELETE, ADMIN])
@pytest.mark.parametrize("route", TABLE, ids=str)
def test_a_route_opens_to_its_scope_and_to_admin_alone(
    lobby: Gate, keys: dict[str, Key], route: tuple[str, str, str | None], held: str
) -> None:
    method, path, needed = route
    answer = lobby.as_(keys[held]).ask(method, path.replace("{buckets}", lobby.buckets))
    if needed in {None, held} or held == ADMIN:
        assert answer.status_code not in {401, 403}, answer.text
    else:
        refused(answer, 403, f"{str(needed).capitalize()} scope required", "Insufficient permissions")


def test_a_missing_scope_is_told_before_a_wrong_body(lobby: Gate, keys: dict[str, Key]) -> None:
    answer = lobby.as_(keys[UPLOAD]).post("/contexts", {"nonsense": 1})
    refused(answer, 403, "Admin scope required", "Insufficient permissions")


def test_a_missing_scope_says_nothing_of_another_tenants_buckets(lobby: Gate, keys: dict[str, Key], newcomer: Gate) -> None:
    caller = lobby.as_(keys[UPLOAD])
    for path in (newcomer.buckets, lobby.buckets, "/tenants/ten_unknown/storage-configs"):
        assert caller.get(path).status_code in {403, 404}


def test_admin_does_everything(gate: Gate) -> None:
    context = gate.context()
    file_id = gate.store(context=context)
    data(gate.get(f"/files/{file_id}"))
    data(gate.get(f"/files/{file_id}/metadata"))
    data(gate.delete(f"/files/{file_id}"))


def test_each_scope_does_its_own_work(gate: Gate) -> None:
    context = gate.context()
    file_id = gate.as_(gate.key(UPLOAD)).store(context=context)
    data(gate.as_(gate.key(METADATA)).get(f"/files/{file_id}/metadata"))
    data(gate.as_(gate.key(DOWNLOAD)).get(f"/files/{file_id}"))
    data(gate.as_(gate.key(DELETE)).delete(f"/files/{file_id}"))


@pytest.mark.parametrize(
    "claim",
    [{"scope": "metadata"}, {"scope": "openid metadata profile"}, {"scopes": ["metadata"]}, {"scopes": ["x", "metadata"]}],
    ids=str,
)
@pytest.mark.asvs("10.3.2")
def test_a_tokens_scopes_come_from_its_claim(lobby: Gate, claim: dict[str, object]) -> None:
    user = lobby.as_(lobby.token(**claim))
    assert user.get("/files").status_code == 200
    refused(user.post("/contexts", {}), 403, "Admin scope required", "Insufficient permissions")


@pytest.mark.parametrize("claim", [{}, {"scope": ""}, {"scopes": []}, {"scope": "openid"}, {"scope": "METADATA"}], ids=str)
def test_a_token_without_scopes_reads_contexts_and_nothing_else(lobby: Gate, claim: dict[str, object]) -> None:
    user = lobby.as_(lobby.token(**claim))
    assert user.get("/contexts").status_code == 200
    refused(user.get("/files"), 403, "Metadata scope required", "Insufficient permissions")


def test_a_token_that_names_none_gets_the_scopes_of_the_setting(hasty: Service) -> None:
    gate = hasty.new_gate()
    user = gate.as_(gate.token())
    assert user.get("/files").status_code == 200
    assert user.delete("/files/file_unknown").status_code == 404
    refused(user.get("/files/file_unknown"), 403, "Download scope required", "Insufficient permissions")


def test_a_token_that_names_no_scope_at_all_gets_none_of_the_setting(hasty: Service) -> None:
    gate = hasty.new_gate()
    refused(gate.as_(gate.token(scope="")).get("/files"), 403, "Metadata scope required", "Insufficient permissions")


def test_a_key_made_by_a_user_grants_what_the_user_has(newcomer: Gate) -> None:
    user = newcomer.as_(newcomer.token(scope="admin"))
    key = user.key("delete", "admin")
    assert newcomer.as_(key).get("/api-keys").status_code == 200
