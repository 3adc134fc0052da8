"""Which scope allows which route: the whole table, and each route with its scope and with all others."""

from typing import Any, Final

import pytest

from sluice.access import ROUTE_SCOPES, Scope
from tests.api.responses import assert_error, data
from tests.api.test_tenant_isolation import UNKNOWN
from tests.rows import every_row
from tests.service import API, ApiClient, Service

SCOPES = UPLOAD, DOWNLOAD, METADATA, DELETE, REVIEW, ADMIN = tuple(scope.value for scope in Scope)

# written out here, and not read from the code: an error in the code's table must be detected
ROUTES: Final[dict[str, dict[str, str | None]]] = {
    "/contexts": {"POST": ADMIN, "GET": None},
    "/contexts/{context_key}": {"GET": None, "PATCH": ADMIN},
    "/contexts/{context_key}/replay": {"POST": ADMIN},
    "/contexts/{context_key}/hold": {"PUT": ADMIN, "DELETE": ADMIN},
    "/files/upload": {"POST": UPLOAD},
    "/files/validate": {"POST": UPLOAD},
    "/uploads": {"POST": UPLOAD},
    "/uploads/{upload_id}": {"GET": UPLOAD, "HEAD": UPLOAD, "PATCH": UPLOAD, "DELETE": UPLOAD},
    "/reports": {"GET": METADATA},
    "/reports/{report_id}": {"GET": METADATA},
    "/files": {"GET": METADATA},
    "/files/{file_id}": {"GET": DOWNLOAD, "DELETE": DELETE},
    "/files/{file_id}/metadata": {"GET": METADATA},
    "/files/{file_id}/receipt": {"GET": METADATA},
    "/files/bulk-delete": {"POST": DELETE},
    "/files/bulk-restore": {"POST": DELETE},
    "/files/export": {"POST": METADATA},
    "/jobs/{job_id}/download": {"GET": METADATA},
    "/jobs": {"GET": METADATA},
    "/jobs/{job_id}": {"GET": METADATA},
    "/jobs/{job_id}/cancel": {"POST": DELETE},
    "/erasures": {"POST": ADMIN},
    "/erasures/{job_id}": {"GET": ADMIN},
    "/erasures/{job_id}/receipt": {"GET": ADMIN},
    "/files/{file_id}/restore": {"POST": DELETE},
    "/files/{file_id}/hold": {"PUT": ADMIN, "DELETE": ADMIN},
    "/quarantine": {"GET": REVIEW},
    "/quarantine/{file_id}/download": {"GET": REVIEW},
    "/quarantine/{file_id}/release": {"POST": REVIEW},
    "/quarantine/{file_id}/refuse": {"POST": REVIEW},
    "/quarantine/{file_id}/rescan": {"POST": REVIEW},
    "/usage": {"GET": METADATA},
    "/plan": {"GET": METADATA},
    "/api-keys": {"POST": ADMIN, "GET": ADMIN},
    "/api-keys/{api_key_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/api-keys/{api_key_id}/rotate": {"POST": ADMIN},
    "/tenants/{tenant_id}/storage-configs": {"POST": ADMIN, "GET": ADMIN},
    "/tenants/{tenant_id}/storage-configs/{config_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/tenants/{tenant_id}/storage-configs/{config_id}/set-default": {"POST": ADMIN},
    "/audit": {"GET": ADMIN},
    "/events": {"GET": ADMIN},
    "/webhook-endpoints": {"POST": ADMIN, "GET": ADMIN},
    "/webhook-endpoints/{endpoint_id}": {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN},
    "/webhook-endpoints/{endpoint_id}/rotate-secret": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/test": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/recover": {"POST": ADMIN},
    "/webhook-endpoints/{endpoint_id}/deliveries": {"GET": ADMIN},
    "/webhook-deliveries/{delivery_id}/redeliver": {"POST": ADMIN},
    "/cors": {"GET": ADMIN, "PUT": ADMIN},
    "/upload-tokens": {"POST": UPLOAD, "GET": UPLOAD},
    "/upload-tokens/{token_id}": {"GET": UPLOAD, "DELETE": UPLOAD},
}
TABLE: Final = [(method, path, scope) for path, methods in ROUTES.items() for method, scope in methods.items()]
NO_SCOPE = "Insufficient permissions"


def test_table_of_scopes_is_the_expected_one() -> None:
    assert {(method, f"{API}{path}"): scope for method, path, scope in TABLE} == ROUTE_SCOPES
    assert len(TABLE) == len(ROUTE_SCOPES)


@pytest.mark.asvs("8.2.1", "6.3.4", "6.1.3")
def test_route_allows_only_its_scope_and_admin(shared_client: ApiClient) -> None:
    """A credential with all other scopes is refused, so that each of them is; keys and tokens take turns."""

    def callers(*scopes: str) -> list[ApiClient]:
        key, token = shared_client.create_key(*scopes), shared_client.token(scope=" ".join(scopes))
        return [shared_client.with_credential(key), shared_client.with_credential(token)]

    owners = {scope: callers(scope) for scope in SCOPES}
    others = {scope: callers(*(other for other in SCOPES if other not in {scope, ADMIN})) for scope in SCOPES}
    with every_row() as row:
        for number, (method, path, needed) in enumerate(TABLE):
            filled = path.format_map(UNKNOWN | {"tenant_id": shared_client.tenant_id})
            for way, scope in ((number % 2, needed or UPLOAD), (1 - number % 2, ADMIN)):
                with row((method, path, scope)):
                    assert owners[scope][way].request(method, filled).status_code not in {401, 403}
            for caller in others[needed] if needed else ():
                with row((method, path, "all other scopes")):
                    response = caller.request(method, filled)
                    if method == "HEAD":
                        assert response.status_code == 403
                    else:
                        assert_error(response, 403, f"{str(needed).capitalize()} scope required", NO_SCOPE)


def test_missing_scope_comes_first_and_reveals_no_buckets(shared_client: ApiClient, bare_client: ApiClient) -> None:
    caller = shared_client.with_credential(shared_client.create_key(UPLOAD))
    assert_error(caller.post("/contexts", {"nonsense": 1}), 403, "Admin scope required", NO_SCOPE)
    for path in (bare_client.buckets, shared_client.buckets, "/tenants/ten_unknown/storage-configs"):
        assert caller.get(path).status_code in {403, 404}


def test_each_scope_allows_its_own_route_and_admin_every_one(client: ApiClient) -> None:
    context, user = client.create_context(), client.with_credential(client.token(scope="admin"))
    owners = {scope: client.with_credential(user.create_key(scope)) for scope in (UPLOAD, METADATA, DOWNLOAD, DELETE)}
    for callers in (owners, dict.fromkeys(owners, client)):
        file_id = callers[UPLOAD].store(context=context)
        data(callers[METADATA].get(f"/files/{file_id}/metadata"))
        data(callers[DOWNLOAD].get(f"/files/{file_id}"))
        data(callers[DELETE].delete(f"/files/{file_id}"))
    both = client.with_credential(user.create_key(DELETE, ADMIN))
    assert both.get("/api-keys").status_code == 200


@pytest.mark.asvs("10.3.2")
def test_scopes_of_a_token_come_from_its_claim_and_without_them_it_only_reads_contexts(
    shared_client: ApiClient,
) -> None:
    claims: list[dict[str, Any]] = [{"scope": "metadata"}, {"scope": "openid metadata profile"}]
    for claim in (*claims, {"scopes": ["metadata"]}, {"scopes": ["x", "metadata"]}):
        user = shared_client.with_credential(shared_client.token(**claim))
        assert user.get("/files").status_code == 200
        assert_error(user.post("/contexts", {}), 403, "Admin scope required", NO_SCOPE)
    none: list[dict[str, Any]] = [{}, {"scope": ""}, {"scopes": []}, {"scope": "openid"}, {"scope": "METADATA"}]
    for claim in none:
        user = shared_client.with_credential(shared_client.token(**claim))
        assert user.get("/contexts").status_code == 200
        assert_error(user.get("/files"), 403, "Metadata scope required", NO_SCOPE)


def test_token_without_a_scope_claim_gets_the_default_scopes(limited_service: Service) -> None:
    client = limited_service.new_client()
    user, nobody = client.with_credential(client.token()), client.with_credential(client.token(scope=""))
    assert user.get("/files").status_code == 200
    assert user.delete("/files/file_unknown").status_code == 404
    assert_error(user.get("/files/file_unknown"), 403, "Download scope required", NO_SCOPE)
    assert_error(nobody.get("/files"), 403, "Metadata scope required", NO_SCOPE)
