"""Which scope allows which route: every scope on every route. `tests/test_access.py` tests the scope table."""

import pytest

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.responses import assert_error, data
from tests.rows import rows
from tests.service import ApiClient, Key, Service

UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = (scope.value for scope in Scope)

# written out here, and not read from the code: an error in the code's table must be detected
TABLE = [
    ("POST", "/contexts", ADMIN),
    ("GET", "/contexts", None),
    ("GET", "/contexts/unknown", None),
    ("PATCH", "/contexts/unknown", ADMIN),
    ("POST", "/contexts/unknown/replay", ADMIN),
    ("PUT", "/contexts/unknown/hold", ADMIN),
    ("DELETE", "/contexts/unknown/hold", ADMIN),
    ("POST", "/files/upload", UPLOAD),
    ("POST", "/files/validate", UPLOAD),
    ("POST", "/uploads", UPLOAD),
    ("GET", "/uploads/upl_unknown", UPLOAD),
    ("HEAD", "/uploads/upl_unknown", UPLOAD),
    ("PATCH", "/uploads/upl_unknown", UPLOAD),
    ("DELETE", "/uploads/upl_unknown", UPLOAD),
    ("GET", "/reports", METADATA),
    ("GET", "/reports/rep_unknown", METADATA),
    ("GET", "/files", METADATA),
    ("GET", "/files/file_unknown", DOWNLOAD),
    ("GET", "/files/file_unknown/metadata", METADATA),
    ("GET", "/files/file_unknown/receipt", METADATA),
    ("DELETE", "/files/file_unknown", DELETE),
    ("POST", "/files/bulk-delete", DELETE),
    ("POST", "/files/bulk-restore", DELETE),
    ("POST", "/files/export", METADATA),
    ("GET", "/jobs/job_unknown/download", METADATA),
    ("GET", "/jobs", METADATA),
    ("GET", "/jobs/job_unknown", METADATA),
    ("POST", "/jobs/job_unknown/cancel", DELETE),
    ("POST", "/erasures", ADMIN),
    ("GET", "/erasures/job_unknown", ADMIN),
    ("GET", "/erasures/job_unknown/receipt", ADMIN),
    ("POST", "/files/file_unknown/restore", DELETE),
    ("PUT", "/files/file_unknown/hold", ADMIN),
    ("DELETE", "/files/file_unknown/hold", ADMIN),
    ("GET", "/quarantine", REVIEW),
    ("GET", "/quarantine/file_unknown/download", REVIEW),
    ("POST", "/quarantine/file_unknown/release", REVIEW),
    ("POST", "/quarantine/file_unknown/refuse", REVIEW),
    ("POST", "/quarantine/file_unknown/rescan", REVIEW),
    ("GET", "/usage", METADATA),
    ("GET", "/plan", METADATA),
    ("POST", "/api-keys", ADMIN),
    ("GET", "/api-keys", ADMIN),
    ("GET", "/api-keys/key_unknown", ADMIN),
    ("PATCH", "/api-keys/key_unknown", ADMIN),
    ("DELETE", "/api-keys/key_unknown", ADMIN),
    ("POST", "/api-keys/key_unknown/rotate", ADMIN),
    ("POST", "{buckets}", ADMIN),
    ("GET", "{buckets}", ADMIN),
    ("GET", "{buckets}/bkt_unknown", ADMIN),
    ("PATCH", "{buckets}/bkt_unknown", ADMIN),
    ("POST", "{buckets}/bkt_unknown/set-default", ADMIN),
    ("DELETE", "{buckets}/bkt_unknown", ADMIN),
    ("GET", "/audit", ADMIN),
    ("GET", "/events", ADMIN),
    ("POST", "/webhook-endpoints", ADMIN),
    ("GET", "/webhook-endpoints", ADMIN),
    ("GET", "/webhook-endpoints/whk_unknown", ADMIN),
    ("PATCH", "/webhook-endpoints/whk_unknown", ADMIN),
    ("DELETE", "/webhook-endpoints/whk_unknown", ADMIN),
    ("POST", "/webhook-endpoints/whk_unknown/rotate-secret", ADMIN),
    ("POST", "/webhook-endpoints/whk_unknown/test", ADMIN),
    ("POST", "/webhook-endpoints/whk_unknown/recover", ADMIN),
    ("GET", "/webhook-endpoints/whk_unknown/deliveries", ADMIN),
    ("POST", "/webhook-deliveries/dlv_unknown/redeliver", ADMIN),
    ("GET", "/cors", ADMIN),
    ("PUT", "/cors", ADMIN),
    ("POST", "/upload-tokens", UPLOAD),
    ("GET", "/upload-tokens", UPLOAD),
    ("GET", "/upload-tokens/utk_unknown", UPLOAD),
    ("DELETE", "/upload-tokens/utk_unknown", UPLOAD),
]


@pytest.fixture(scope="module")
def keys(shared_client: ApiClient) -> dict[str, Key]:
    return {scope: shared_client.create_key(scope) for scope in (UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN)}


def test_table_of_this_test_covers_every_route() -> None:
    assert len(TABLE) == len(ROUTE_SCOPES)


@rows("held", [UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN])
@rows("route", TABLE)
def test_route_allows_only_its_scope_and_admin(
    shared_client: ApiClient, keys: dict[str, Key], route: tuple[str, str, str | None], held: str
) -> None:
    method, path, needed = route
    response = shared_client.with_credential(keys[held]).request(
        method, path.replace("{buckets}", shared_client.buckets)
    )
    if needed in {None, held} or held == ADMIN:
        assert response.status_code not in {401, 403}, response.text
    elif method == "HEAD":
        assert response.status_code == 403
    else:
        assert_error(response, 403, f"{str(needed).capitalize()} scope required", "Insufficient permissions")


def test_missing_scope_is_reported_before_an_invalid_body(shared_client: ApiClient, keys: dict[str, Key]) -> None:
    response = shared_client.with_credential(keys[UPLOAD]).post("/contexts", {"nonsense": 1})
    assert_error(response, 403, "Admin scope required", "Insufficient permissions")


def test_missing_scope_reveals_nothing_about_another_tenants_buckets(
    shared_client: ApiClient, keys: dict[str, Key], bare_client: ApiClient
) -> None:
    caller = shared_client.with_credential(keys[UPLOAD])
    for path in (bare_client.buckets, shared_client.buckets, "/tenants/ten_unknown/storage-configs"):
        assert caller.get(path).status_code in {403, 404}


def test_admin_key_may_do_everything(client: ApiClient) -> None:
    context = client.create_context()
    file_id = client.store(context=context)
    data(client.get(f"/files/{file_id}"))
    data(client.get(f"/files/{file_id}/metadata"))
    data(client.delete(f"/files/{file_id}"))


def test_each_scope_allows_its_own_route(client: ApiClient) -> None:
    context = client.create_context()
    file_id = client.with_credential(client.create_key(UPLOAD)).store(context=context)
    data(client.with_credential(client.create_key(METADATA)).get(f"/files/{file_id}/metadata"))
    data(client.with_credential(client.create_key(DOWNLOAD)).get(f"/files/{file_id}"))
    data(client.with_credential(client.create_key(DELETE)).delete(f"/files/{file_id}"))


@rows(
    "claim",
    [
        {"scope": "metadata"},
        {"scope": "openid metadata profile"},
        {"scopes": ["metadata"]},
        {"scopes": ["x", "metadata"]},
    ],
)
@pytest.mark.asvs("10.3.2")
def test_scopes_of_a_token_come_from_its_claim(shared_client: ApiClient, claim: dict[str, object]) -> None:
    user = shared_client.with_credential(shared_client.token(**claim))
    assert user.get("/files").status_code == 200
    assert_error(user.post("/contexts", {}), 403, "Admin scope required", "Insufficient permissions")


@rows("claim", [{}, {"scope": ""}, {"scopes": []}, {"scope": "openid"}, {"scope": "METADATA"}])
def test_token_without_scopes_may_only_read_contexts(shared_client: ApiClient, claim: dict[str, object]) -> None:
    user = shared_client.with_credential(shared_client.token(**claim))
    assert user.get("/contexts").status_code == 200
    assert_error(user.get("/files"), 403, "Metadata scope required", "Insufficient permissions")


def test_token_without_a_scope_claim_gets_the_default_scopes(limited_service: Service) -> None:
    client = limited_service.new_client()
    user = client.with_credential(client.token())
    assert user.get("/files").status_code == 200
    assert user.delete("/files/file_unknown").status_code == 404
    assert_error(user.get("/files/file_unknown"), 403, "Download scope required", "Insufficient permissions")


def test_token_with_an_empty_scope_claim_gets_no_default_scopes(limited_service: Service) -> None:
    client = limited_service.new_client()
    assert_error(
        client.with_credential(client.token(scope="")).get("/files"),
        403,
        "Metadata scope required",
        "Insufficient permissions",
    )


def test_key_created_with_a_token_gets_the_requested_scopes(bare_client: ApiClient) -> None:
    user = bare_client.with_credential(bare_client.token(scope="admin"))
    key = user.create_key("delete", "admin")
    assert bare_client.with_credential(key).get("/api-keys").status_code == 200
