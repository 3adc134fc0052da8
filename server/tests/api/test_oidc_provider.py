"""A service that trusts a real OIDC issuer: tenants, users and scopes from its tokens; rotation, outage and floods."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.responses import assert_error, assert_unauthenticated, data
from tests.deployments import Deployments
from tests.identity.tokens import b64
from tests.servers.oidc_provider import AUDIENCE, OidcProvider, running_oidc_provider
from tests.service import ApiClient, Service, running_service


@dataclass(frozen=True)
class OidcService:
    service: Service
    provider: OidcProvider

    def client(self, client: str, scope: str) -> ApiClient:
        return self.client_with(self.provider.token(client, scope), client)

    def client_with(self, token: str, client: str = "first") -> ApiClient:
        return ApiClient(self.service, f"ten_of_{client}", f"Bearer {token}")


@pytest.fixture(scope="module")
def oidc_service(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OidcService]:
    with (
        running_oidc_provider(tmp_path_factory.mktemp("issuer")) as provider,
        running_service(deployments.fresh("sqlite-local"), **provider.settings) as service,
    ):
        yield OidcService(service, provider)


def test_first_token_creates_the_tenant_and_the_first_key(oidc_service: OidcService) -> None:
    admin, second = oidc_service.client("first", "admin"), oidc_service.client("second", "admin")
    key = admin.create_key("metadata")
    assert data(admin.get(f"/api-keys/{key.api_key_id}"))["tenant_id"] == "ten_of_first"
    for path in (f"/contexts/{admin.create_context()}", admin.buckets):
        assert second.get(path).status_code == 404, "a tenant of another client"
    uploader = oidc_service.client("first", "upload")
    assert_error(uploader.get("/files"), 403, "Metadata scope required", "Insufficient permissions")


@pytest.mark.asvs("10.3.3")
def test_same_subject_of_two_issuers_is_two_users(oidc_service: OidcService) -> None:
    first = oidc_service.client("first", "admin")
    context = first.create_context()
    first.store("theirs.txt", context=context)
    claims: dict[str, Any] = {"sub": "first", "tenant_id": "ten_of_first", "scope": "admin", "aud": AUDIENCE}
    first.with_credential(oidc_service.service.issuer.token(**claims)).store("ours.txt", context=context)
    items = first.get("/files", context=context).json()["data"]
    users = {item["original_filename"]: item["uploaded_by"] for item in items}
    assert users == {"theirs.txt": f"{oidc_service.provider.issuer}|first", "ours.txt": "sluice|first"}
    (mine,) = first.get("/files", uploaded_by=users["theirs.txt"]).json()["data"]
    assert mine["original_filename"] == "theirs.txt"


def test_altered_oidc_token_is_refused(oidc_service: OidcService) -> None:
    head, body, signature = oidc_service.provider.token("first", "upload").split(".")
    forged = b64(b'{"alg":"none","typ":"at+jwt"}')
    unsigned = (f"{forged}.{body}.", f"{forged}.{body}.{signature}", f"{head}.{body}.")
    for token in (*unsigned, f"{head}.{body}.{signature[:-4]}AAAA"):
        assert_unauthenticated(oidc_service.client_with(token).get("/contexts"))


def test_flood_of_unknown_key_ids_asks_the_issuer_once(oidc_service: OidcService) -> None:
    assert oidc_service.client("first", "admin").get("/contexts").status_code == 200
    before = oidc_service.provider.times_asked
    _, body, signature = oidc_service.provider.token("first", "upload").split(".")
    for number in range(50):
        head = b64(b'{"alg":"RS256","typ":"JWT","kid":"%d"}' % number)
        assert_unauthenticated(oidc_service.client_with(f"{head}.{body}.{signature}").get("/contexts"))
    assert oidc_service.provider.times_asked - before <= 1


def test_key_rotation_applies_at_once_and_kept_keys_bridge_an_outage(deployments: Deployments, tmp_path: Path) -> None:
    with ExitStack() as old_keys:
        old = old_keys.enter_context(running_oidc_provider(tmp_path))
        with running_service(deployments.fresh("sqlite-local"), **old.settings) as service:
            known = ApiClient(service, "ten_of_first", f"Bearer {old.token('first', 'admin')}")
            assert known.get("/contexts").status_code == 200
            old_keys.close()
            assert known.get("/contexts").status_code == 200, "kept keys are used while the issuer is away"
            with running_oidc_provider(tmp_path, old.port) as new:
                fresh = ApiClient(service, "ten_of_first", f"Bearer {new.token('first', 'admin')}")
                assert fresh.get("/contexts").status_code == 200
                assert_unauthenticated(known.get("/contexts"))
