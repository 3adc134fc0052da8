"""A service that believes a real OIDC issuer: from its tokens to tenants, users and scopes; rotation, outage and floods over the wire."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.api.answers import data, refused, unauthenticated
from tests.api.places import Places
from tests.engines.identity.tokens import b64
from tests.gate import Gate, Service, running_service
from tests.servers.oidc_provider import AUDIENCE, OidcProvider, running_oidc_provider


@dataclass(frozen=True)
class Trusting:
    """A service and the issuer that it believes."""

    service: Service
    provider: OidcProvider

    def client(self, client: str, scope: str) -> Gate:
        return Gate(self.service, f"ten_of_{client}", f"Bearer {self.provider.token(client, scope)}")


@pytest.fixture(scope="module")
def trusting(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    with (
        running_oidc_provider(tmp_path_factory.mktemp("issuer")) as provider,
        running_service(places.fresh("sqlite-local"), **provider.settings) as service,
    ):
        yield Trusting(service, provider)


def test_a_first_token_makes_the_tenant_and_the_first_key(trusting: Trusting) -> None:
    admin = trusting.client("first", "admin")
    key = admin.key("metadata")
    assert data(admin.get(f"/api-keys/{key.api_key_id}"))["tenant_id"] == "ten_of_first"


def test_the_scopes_of_a_token_are_its_own(trusting: Trusting) -> None:
    uploader = trusting.client("first", "upload")
    refused(uploader.get("/files"), 403, "Metadata scope required", "Insufficient permissions")


def test_the_tenants_of_two_clients_see_nothing_of_each_other(trusting: Trusting) -> None:
    first, second = trusting.client("first", "admin"), trusting.client("second", "admin")
    context = first.context()
    assert second.get(f"/contexts/{context}").status_code == 404
    assert second.get(first.buckets).status_code == 404


@pytest.mark.asvs("10.3.3")
def test_one_subject_of_two_issuers_is_two_users(trusting: Trusting) -> None:
    first = trusting.client("first", "admin")
    context = first.context()
    first.store("theirs.txt", context=context)
    local = first.as_(trusting.service.issuer.token(sub="first", tenant_id="ten_of_first", scope="admin", aud=AUDIENCE))
    local.store("ours.txt", context=context)
    users = {item["original_filename"]: item["uploaded_by"] for item in first.get("/files", context=context).json()["data"]}
    assert users == {"theirs.txt": f"{trusting.provider.issuer}|first", "ours.txt": "sluice|first"}
    (mine,) = first.get("/files", uploaded_by=users["theirs.txt"]).json()["data"]
    assert mine["original_filename"] == "theirs.txt"


def test_a_changed_token_is_refused(trusting: Trusting) -> None:
    head, body, signature = trusting.provider.token("first", "upload").split(".")
    forged = b64(b'{"alg":"none","typ":"at+jwt"}')
    for token in (f"{forged}.{body}.", f"{forged}.{body}.{signature}", f"{head}.{body}.{signature[:-4]}AAAA", f"{head}.{body}."):
        unauthenticated(Gate(trusting.service, "ten_of_first", f"Bearer {token}").get("/contexts"))


def test_a_flood_of_unknown_keys_asks_the_issuer_once(trusting: Trusting) -> None:
    assert trusting.client("first", "admin").get("/contexts").status_code == 200
    before = trusting.provider.times_asked
    _, body, signature = trusting.provider.token("first", "upload").split(".")
    for number in range(50):
        head = b64(b'{"alg":"RS256","typ":"JWT","kid":"%d"}' % number)
        unauthenticated(Gate(trusting.service, "ten_of_first", f"Bearer {head}.{body}.{signature}").get("/contexts"))
    assert trusting.provider.times_asked - before <= 1


def test_a_rotation_is_followed_at_once_and_an_outage_bridged(places: Places, tmp_path: Path) -> None:
    with ExitStack() as old_keys:
        old = old_keys.enter_context(running_oidc_provider(tmp_path))
        with running_service(places.fresh("sqlite-local"), **old.settings) as service:
            known = Gate(service, "ten_of_first", f"Bearer {old.token('first', 'admin')}")
            assert known.get("/contexts").status_code == 200
            old_keys.close()
            assert known.get("/contexts").status_code == 200, "kept keys are used while the issuer is away"
            with running_oidc_provider(tmp_path, old.port) as new:
                fresh = Gate(service, "ten_of_first", f"Bearer {new.token('first', 'admin')}")
                assert fresh.get("/contexts").status_code == 200
                unauthenticated(known.get("/contexts"))
