"""`sluice tenants`, `keys` and `token`: manage tenants and credentials."""

import time
from typing import Any

import jwt
import pytest

from sluice.errors import Unauthenticated
from tests.api.tokens import LocalIssuer
from tests.cli.commands import Sluice
from tests.cli.test_init import principal_of
from tests.rows import each_row


def key_of(sluice: Sluice, tenant_id: str, *options: str) -> Any:
    """Create a key for uploads."""
    words = ("--tenant", tenant_id, "--name", "form", "--scope", "upload", *options, "--json")
    return sluice("keys", "create", *words).json


def test_tenants_commands_create_list_suspend_and_resume_a_tenant(ready: Sluice) -> None:
    created = ready("tenants", "create", "--name", "Mill", "--plan", "free", "--json").json
    assert (created["name"], created["plan"], created["status"]) == ("Mill", "free", "active")
    assert ready("tenants", "suspend", created["tenant_id"]).code == 0
    assert status_of(ready, created["tenant_id"]) == "suspended"
    assert ready("tenants", "resume", created["tenant_id"]).code == 0
    assert status_of(ready, created["tenant_id"]) == "active"


def test_a_tenant_is_updated_and_deleted_for_ever(ready: Sluice) -> None:
    tenant_id = ready("tenants", "create", "--name", "Mill", "--plan", "free", "--json").json["tenant_id"]
    changed = ready("tenants", "update", tenant_id, "--plan", "unlimited", "--json").json
    assert (changed["name"], changed["plan"]) == ("Mill", "unlimited")
    sentence = f"The tenant {tenant_id} is Weir, with the plan unlimited.\n"
    assert ready("tenants", "update", tenant_id, "--name", "Weir").out == sentence
    assert ready("tenants", "update", tenant_id).code == 2
    assert "add --yes" in ready("tenants", "delete", tenant_id).error_line
    assert status_of(ready, tenant_id) == "active"
    assert ready("tenants", "delete", tenant_id, "--yes").code == 0
    assert status_of(ready, tenant_id) == "deleted"
    assert ready("tenants", "resume", tenant_id).code == 5
    assert "is deleted already" in ready("tenants", "delete", tenant_id, "--yes").error_line
    assert status_of(ready, tenant_id) == "deleted"


def status_of(sluice: Sluice, tenant_id: str) -> str:
    return str(next(row["status"] for row in sluice("tenants", "list", "--json").rows if row["tenant_id"] == tenant_id))


def test_tenants_list_prints_a_table_of_tenants(ready: Sluice, tenant_id: str) -> None:
    result = ready("tenants", "list")
    assert result.out.splitlines()[0].split() == ["tenant", "name", "plan", "status", "created"]
    assert f"{tenant_id}  Weir & Sons  free" in result.out


async def test_keys_create_applies_scopes_test_mode_and_expiry(ready: Sluice, tenant_id: str) -> None:
    created = key_of(ready, tenant_id, "--scope", "metadata", "--test", "--expires-in-days", "7")
    assert await principal_of(ready, created["api_key"]) == (tenant_id, {"upload", "metadata"})
    assert (created["api_key"][:8], created["mode"]) == ("sl_test_", "test")
    assert created["expires_at"][:10] > created["created_at"][:10]


async def test_revoked_key_fails_authentication_and_is_not_rotated(ready: Sluice, tenant_id: str) -> None:
    created = key_of(ready, tenant_id)
    assert ready("keys", "revoke", created["api_key_id"], "--tenant", tenant_id, "--yes").code == 0
    with pytest.raises(Unauthenticated):
        await principal_of(ready, created["api_key"])
    assert [row["status"] for row in ready("keys", "list", "--tenant", tenant_id, "--json").rows] == ["revoked"]
    result = ready("keys", "rotate", created["api_key_id"], "--tenant", tenant_id)
    assert (result.code, result.error_line) == (1, f"The key {created['api_key_id']} is revoked: make a new one.")


def test_keys_create_and_limit_set_what_a_key_is_limited_to(ready: Sluice, tenant_id: str) -> None:
    created = key_of(ready, tenant_id, "--network", "192.0.2.0/24", "--rate-per-minute", "60")
    assert (created["contexts"], created["allowed_networks"], created["rate_per_minute"]) == ([], ["192.0.2.0/24"], 60)
    assert ready("keys", "limit", created["api_key_id"], "--tenant", tenant_id, "--network", "2001:db8::/32").code == 0
    (listed,) = ready("keys", "list", "--tenant", tenant_id, "--json").rows
    assert (listed["allowed_networks"], listed["rate_per_minute"]) == (["2001:db8::/32"], None)


async def test_rotated_key_works_with_both_texts(ready: Sluice, tenant_id: str) -> None:
    created = key_of(ready, tenant_id)
    rotated = ready("keys", "rotate", created["api_key_id"], "--tenant", tenant_id, "--json").json
    for text in (created["api_key"], rotated["api_key"]):
        assert await principal_of(ready, text) == (tenant_id, {"upload"})
    shown = ready("keys", "rotate", created["api_key_id"], "--tenant", tenant_id, "--overlap-seconds", "0")
    assert "Its text before is refused." in shown.err
    with pytest.raises(Unauthenticated):
        await principal_of(ready, rotated["api_key"])


def test_keys_list_omits_the_secret(ready: Sluice, tenant_id: str) -> None:
    created = key_of(ready, tenant_id)
    result = ready("keys", "list", "--tenant", tenant_id, "--status", "active")
    assert created["key_prefix"] in result.out
    assert created["api_key"] not in result.out


def test_keys_list_includes_the_key_created_by_init(initialized: tuple[Sluice, dict[str, Any]]) -> None:
    sluice, created = initialized
    listed = sluice("keys", "list", "--tenant", created["tenant_id"], "--json").rows
    assert created["api_key_id"] in {row["api_key_id"] for row in listed}


def test_token_contains_the_requested_claims_and_is_signed_with_the_local_key(ready: Sluice, tenant_id: str) -> None:
    arguments = ["--subject", "user-7", "--name", "Ada", "--scope", "admin", "--scope", "upload", "--expires-in", "90"]
    result = ready("token", "--tenant", tenant_id, *arguments)
    public = LocalIssuer(ready.data_dir).key.public_key()
    claims = jwt.decode(result.out.strip(), public, algorithms=["EdDSA"], audience="sluice", issuer="sluice")
    expected = {"sub": "user-7", "name": "Ada", "tenant_id": tenant_id, "scope": "admin upload"}
    assert claims.items() >= expected.items()
    assert 0 < claims["exp"] - time.time() <= 90


CREATE = ("keys", "create", "--name", "x", "--scope", "upload")


@each_row(
    "arguments",
    [("tenants", "suspend", "ten_nobody")]
    + [(*words, "--tenant", "ten_nobody") for words in (("keys", "list"), CREATE)]
    + [("token", "--tenant", "ten_nobody", "--subject", "x", "--scope", "admin")],
)
def test_command_reports_an_unknown_tenant(arguments: tuple[str, ...], ready: Sluice) -> None:
    result = ready(*arguments)
    assert result.code == 5
    assert result.error_line == "There is no tenant ten_nobody: `sluice tenants list` names them all."


@each_row(
    "arguments, problem",
    [
        ((*CREATE, "--network", "192.0.2.1/24"), "192.0.2.1/24 has host bits set"),
        ((*CREATE, "--context", "unknown_one"), "contexts: expected keys of contexts, found unknown_one."),
        ((*CREATE, "--rate-per-minute", "0"), "Invalid value for '--rate-per-minute'"),
        (("token", "--subject", "user-1"), "Missing option '--scope'"),
    ],
)
def test_what_is_wrong_for_a_key_or_token_is_refused_in_one_readable_line(
    arguments: tuple[str, ...], problem: str, ready: Sluice, tenant_id: str
) -> None:
    result = ready(*arguments, "--tenant", tenant_id)
    assert result.code == 2
    assert problem in result.error_line
    assert "\\" not in result.error_line


def test_keys_revoke_refuses_a_key_of_another_tenant_and_the_text_of_a_key(
    initialized: tuple[Sluice, dict[str, Any]], tenant_id: str
) -> None:
    sluice, created = initialized
    result = sluice("keys", "revoke", created["api_key_id"], "--tenant", tenant_id, "--yes")
    assert (result.code, "has no key" in result.error_line) == (5, True)
    text = key_of(sluice, tenant_id)["api_key"]
    result = sluice("keys", "revoke", text, "--tenant", tenant_id, "--yes")
    assert result.code == 2
    assert text not in result.err + result.out
    assert "Expected the id of a key, key_…" in result.error_line
