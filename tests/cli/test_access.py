"""`sluice tenants`, `keys` and `token`: who is let in, by command."""

import time
from typing import Any

import jwt
import pytest

from sluice.errors import Unauthenticated
from tests.api.tokens import LocalIssuer
from tests.cli.commands import Sluice
from tests.cli.test_init import holder_of


def test_a_tenant_is_made_listed_suspended_and_resumed(ready: Sluice) -> None:
    made = ready("tenants", "create", "--name", "Mill", "--plan", "free", "--json").json
    assert (made["name"], made["plan"], made["status"]) == ("Mill", "free", "active")
    assert ready("tenants", "suspend", made["tenant_id"]).code == 0
    assert status_of(ready, made["tenant_id"]) == "suspended"
    assert ready("tenants", "resume", made["tenant_id"]).code == 0
    assert status_of(ready, made["tenant_id"]) == "active"


def status_of(sluice: Sluice, tenant_id: str) -> str:
    return str(next(row["status"] for row in sluice("tenants", "list", "--json").rows if row["tenant_id"] == tenant_id))


def test_the_list_for_people_names_every_tenant(ready: Sluice, tenant_id: str) -> None:
    ended = ready("tenants", "list")
    assert ended.out.splitlines()[0].split() == ["tenant", "name", "plan", "status", "created"]
    assert f"{tenant_id}  Weir & Sons  free" in ended.out


async def test_a_key_may_do_what_its_scopes_say(ready: Sluice, tenant_id: str) -> None:
    ended = ready(
        "keys", "create", "--tenant", tenant_id, "--name", "scanner 3", "--scope", "upload", "--scope", "metadata", "--json"
    )
    assert await holder_of(ready, ended.json["api_key"]) == (tenant_id, {"upload", "metadata"})


async def test_a_revoked_key_is_refused(ready: Sluice, tenant_id: str) -> None:
    made = ready("keys", "create", "--tenant", tenant_id, "--name", "old", "--scope", "admin", "--json").json
    assert ready("keys", "revoke", made["api_key_id"], "--tenant", tenant_id).code == 0
    with pytest.raises(Unauthenticated):
        await holder_of(ready, made["api_key"])
    assert [row["status"] for row in ready("keys", "list", "--tenant", tenant_id, "--json").rows] == ["revoked"]


def test_a_test_key_and_an_expiry_are_kept(ready: Sluice, tenant_id: str) -> None:
    words = ["--tenant", tenant_id, "--name", "try", "--scope", "upload", "--test", "--expires-in-days", "7", "--json"]
    made = ready("keys", "create", *words).json
    assert made["api_key"].startswith("sl_test_")
    assert made["mode"] == "test"
    assert made["expires_at"][:10] > made["created_at"][:10]


def test_keys_are_listed_without_their_secret(ready: Sluice, tenant_id: str) -> None:
    made = ready("keys", "create", "--tenant", tenant_id, "--name", "form", "--scope", "upload", "--json").json
    ended = ready("keys", "list", "--tenant", tenant_id, "--status", "active")
    assert made["key_prefix"] in ended.out
    assert made["api_key"] not in ended.out


def test_every_key_of_a_tenant_is_listed_whatever_the_page(first: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, made = first
    listed = sluice("keys", "list", "--tenant", made["tenant_id"], "--json").rows
    assert made["api_key_id"] in {row["api_key_id"] for row in listed}


def test_a_token_says_what_was_asked_and_is_signed_by_the_local_key(ready: Sluice, tenant_id: str) -> None:
    words = ["--subject", "user-7", "--name", "Ada", "--scope", "admin", "--scope", "upload", "--expires-in", "90"]
    ended = ready("token", "--tenant", tenant_id, *words)
    public = LocalIssuer(ready.data_dir).key.public_key()
    claims = jwt.decode(ended.out.strip(), public, algorithms=["EdDSA"], audience="sluice", issuer="sluice")
    assert (claims["sub"], claims["name"], claims["tenant_id"], claims["scope"]) == ("user-7", "Ada", tenant_id, "admin upload")
    assert 0 < claims["exp"] - time.time() <= 90


@pytest.mark.parametrize(
    "words",
    [
        ("tenants", "suspend", "ten_nobody"),
        ("keys", "list", "--tenant", "ten_nobody"),
        ("keys", "create", "--tenant", "ten_nobody", "--name", "x", "--scope", "admin"),
        ("token", "--tenant", "ten_nobody", "--subject", "x", "--scope", "admin"),
    ],
)
def test_an_unknown_tenant_is_said_to_be_unknown(words: tuple[str, ...], ready: Sluice) -> None:
    ended = ready(*words)
    assert ended.code == 1
    assert ended.complaint == "There is no tenant ten_nobody: `sluice tenants list` names them all."


def test_a_key_of_another_tenant_cannot_be_revoked(first: tuple[Sluice, dict[str, Any]], tenant_id: str) -> None:
    sluice, made = first
    ended = sluice("keys", "revoke", made["api_key_id"], "--tenant", tenant_id)
    assert ended.code == 1
    assert "has no key" in ended.complaint
