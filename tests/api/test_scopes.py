"""Which scope allows which route: the whole table, and each route with its scope and with all others."""

import pytest

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.responses import assert_error, data
from tests.api.test_tenant_isolation import UNKNOWN
from tests.rows import each_row, every_row
from tests.service import API, ApiClient, Key, Service

SCOPES = UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = tuple(scope.value for scope in Scope)

# written out here, and not read from the code: an error in the code's table must be detected
TABLE = [
    ("POST", "/contexts", ADMIN),
    ("GET", "/contexts", None),
    ("GET", "/contexts/{context_key}", None),
    ("PATCH", "/contexts/{context_key}", ADMIN),
    ("POST", "/contexts/{context_key}/replay", ADMIN),
    ("PUT", "/contexts/{context_key}/hold", ADMIN),
    ("DELETE", "/contexts/{context_key}/hold", ADMIN),
    ("POST", "/files/upload", UPLOAD),
    ("POST", "/files/validate", UPLOAD),
    ("POST", "/uploads", UPLOAD),
    ("GET", "/uploads/{upload_id}", UPLOAD),
    ("HEAD", "/uploads/{upload_id}", UPLOAD),
    ("PATCH", "/uploads/{upload_id}", UPLOAD),
    ("DELETE", "/uploads/{upload_id}", UPLOAD),
    ("GET", "/reports", METADATA),
    ("GET", "/reports/{report_id}", METADATA),
    ("GET", "/files", METADATA),
    ("GET", "/files/{file_id}", DOWNLOAD),
    ("GET", "/files/{file_id}/metadata", METADATA),
    ("GET", "/files/{file_id}/receipt", METADATA),
    ("DELETE", "/files/{file_id}", DELETE),
    ("POST", "/files/bulk-delete", DELETE),
    ("POST", "/files/bulk-restore", DELETE),
    ("POST", "/files/export", METADATA),
    ("GET", "/jobs/{job_id}/download", METADATA),
    ("GET", "/jobs", METADATA),
    ("GET", "/jobs/{job_id}", METADATA),
    ("POST", "/jobs/{job_id}/cancel", DELETE),
    ("POST", "/erasures", ADMIN),
    ("GET", "/erasures/{job_id}", ADMIN),
    ("GET", "/erasures/{job_id}/receipt", ADMIN),
    ("POST", "/files/{file_id}/restore", DELETE),
    ("PUT", "/files/{file_id}/hold", ADMIN),
    ("DELETE", "/files/{file_id}/hold", ADMIN),
    ("GET", "/quarantine", REVIEW),
    ("GET", "/quarantine/{file_id}/download", REVIEW),
    ("POST", "/quarantine/{file_id}/release", REVIEW),
    ("POST", "/quarantine/{file_id}/refuse", REVIEW),
    ("POST", "/quarantine/{file_id}/rescan", REVIEW),
    ("GET", "/usage", METADATA),
    ("GET", "/plan", METADATA),
    ("POST", "/api-keys", ADMIN),
    ("GET", "/api-keys", ADMIN),
    ("GET", "/api-keys/{api_key_id}", ADMIN),
    ("PATCH", "/api-keys/{api_key_id}", ADMIN),
    ("DELETE", "/api-keys/{api_key_id}", ADMIN),
    ("POST", "/api-keys/{api_key_id}/rotate", ADMIN),
    ("POST", "/tenants/{tenant_id}/storage-configs", ADMIN),
    ("GET", "/tenants/{tenant_id}/storage-configs", ADMIN),
    ("GET", "/tenants/{tenant_id}/storage-configs/{config_id}", ADMIN),
    ("PATCH", "/tenants/{tenant_id}/storage-configs/{config_id}", ADMIN),
    ("POST", "/tenants/{tenant_id}/storage-configs/{config_id}/set-default", ADMIN),
    ("DELETE", "/tenants/{tenant_id}/storage-configs/{config_id}", ADMIN),
    ("GET", "/audit", ADMIN),
    ("GET", "/events", ADMIN),
    ("POST", "/webhook-endpoints", ADMIN),
    ("GET", "/webhook-endpoints", ADMIN),
    ("GET", "/webhook-endpoints/{endpoint_id}", ADMIN),
    ("PATCH", "/webhook-endpoints/{endpoint_id}", ADMIN),
    ("DELETE", "/webhook-endpoints/{endpoint_id}", ADMIN),
    ("POST", "/webhook-endpoints/{endpoint_id}/rotate-secret", ADMIN),
    ("POST", "/webhook-endpoints/{endpoint_id}/test", ADMIN),
    ("POST", "/webhook-endpoints/{endpoint_id}/recover", ADMIN),
    ("GET", "/webhook-endpoints/{endpoint_id}/deliveries", ADMIN),
    ("POST", "/webhook-deliveries/{delivery_id}/redeliver", ADMIN),
    ("GET", "/cors", ADMIN),
    ("PUT", "/cors", ADMIN),
    ("POST", "/upload-tokens", UPLOAD),
    ("GET", "/upload-tokens", UPLOAD),
    ("GET", "/upload-tokens/{token_id}", UPLOAD),
    ("DELETE", "/upload-tokens/{token_id}", UPLOAD),
]


@pytest.fixture(scope="module")
def keys(shared_client: ApiClient) -> dict[str, Key]:
    return {scope: shared_client.create_key(scope) for scope in (UPLOAD, METADATA, DELETE, ADMIN)}


def test_table_of_scopes_is_the_expected_one() -> None:
    assert {(method, f"{API}{path}"): scope for method, path, scope in TABLE} == ROUTE_SCOPES
    assert len(TABLE) == len(ROUTE_SCOPES)


@pytest.mark.asvs("8.2.1", "6.3.4", "6.1.3")
def test_route_allows_only_its_scope_and_admin(shared_client: ApiClient) -> None:
    """A credential with all other scopes is refused, so that each of them is; keys and tokens take turns."""

    def caller(number: int, *scopes: str) -> ApiClient:
        is_key = number % 2 == 0
        return shared_client.with_credential(
            shared_client.create_key(*scopes) if is_key else shared_client.token(scope=" ".join(scopes))
        )

    owners = [{scope: caller(number, scope) for scope in SCOPES} for number in range(2)]
    others = [
        {scope: caller(number, *(other for other in SCOPES if other not in {scope, ADMIN})) for scope in SCOPES}
        for number in range(2)
    ]
    with every_row() as row:
        for number, (method, path, needed) in enumerate(TABLE):
            filled = path.format_map(UNKNOWN | {"tenant_id": shared_client.tenant_id})
            for way, scope in ((number % 2, needed or UPLOAD), (1 - number % 2, ADMIN)):
                with row((method, path, scope)):
                    assert owners[way][scope].request(method, filled).status_code not in {401, 403}
            for callers in others if needed else ():
                with row((method, path, "all other scopes")):
                    response = callers[str(needed)].request(method, filled)
                    if method == "HEAD":
                        assert response.status_code == 403
                    else:
                        sentence = f"{str(needed).capitalize()} scope required"
                        assert_error(response, 403, sentence, "Insufficient permissions")


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


@each_row(
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


@each_row("claim", [{}, {"scope": ""}, {"scopes": []}, {"scope": "openid"}, {"scope": "METADATA"}])
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
