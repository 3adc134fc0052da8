import re
from pathlib import Path

import pytest

from sluice.access import PUBLIC_ROUTES, ROUTE_SCOPES, SIGNED_ROUTES, TOKEN_ROUTES, Principal, Scope, known_scopes
from sluice_client.cli.keys import Scope as CommandScope
from tests.rows import each_row

INTERFACE = Path(__file__).parents[2].parent / "shared" / "interface.md"


def caller(*scopes: Scope) -> Principal:
    return Principal(
        tenant_id="ten_1", actor_id="key_1", actor_name="one", scopes=frozenset(scopes), via="api_key", key_id="key_1"
    )


def test_commands_know_the_scopes_of_the_service() -> None:
    assert [scope.value for scope in CommandScope] == [scope.value for scope in Scope]


@each_row("asked", list(Scope))
def test_admin_implies_every_scope(asked: Scope) -> None:
    assert caller(Scope.ADMIN).allows(asked)


@each_row("held", [scope for scope in Scope if scope is not Scope.ADMIN])
def test_scope_other_than_admin_allows_only_itself(held: Scope) -> None:
    assert [scope for scope in Scope if caller(held).allows(scope)] == [held]


def test_caller_without_scopes_may_use_only_routes_without_a_scope() -> None:
    assert caller().allows(None)
    assert not caller().allows(Scope.METADATA)


def test_caller_grants_only_scopes_that_it_holds() -> None:
    assert caller(Scope.UPLOAD, Scope.DELETE).may_grant([Scope.DELETE])
    assert not caller(Scope.UPLOAD).may_grant([Scope.UPLOAD, Scope.ADMIN])
    assert caller(Scope.ADMIN).may_grant(list(Scope))


def test_unknown_scope_names_are_ignored() -> None:
    assert known_scopes(["openid", "upload", "Admin", " admin"]) == {Scope.UPLOAD}


def test_scope_table_is_immutable() -> None:
    with pytest.raises(TypeError):
        ROUTE_SCOPES["GET", "/"] = None  # type: ignore[index]  # the refusal is what is tested


def test_only_reading_contexts_requires_no_scope() -> None:
    free = {route for route, scope in ROUTE_SCOPES.items() if scope is None}
    assert free == {("GET", "/api/v1/contexts"), ("GET", "/api/v1/contexts/{context_key}")}


def test_no_route_is_both_scoped_and_signed() -> None:
    assert not (SIGNED_ROUTES | TOKEN_ROUTES) & ROUTE_SCOPES.keys()


def test_public_routes_only_read_and_are_neither_scoped_nor_signed() -> None:
    assert {method for method, _ in PUBLIC_ROUTES} == {"GET", "OPTIONS"}
    assert not PUBLIC_ROUTES & (SIGNED_ROUTES | TOKEN_ROUTES | ROUTE_SCOPES.keys())


def test_every_write_route_outside_files_and_their_tokens_requires_admin() -> None:
    of_senders = ("/api/v1/files", "/api/v1/uploads", "/api/v1/upload-tokens", "/api/v1/jobs", "/api/v1/quarantine")
    writes = {r: s for r, s in ROUTE_SCOPES.items() if r[0] != "GET" and not r[1].startswith(of_senders)}
    assert set(writes.values()) == {Scope.ADMIN}


@pytest.mark.skipif(not INTERFACE.exists(), reason="../shared/interface.md is absent")
def test_every_route_of_the_interface_is_in_the_scope_table() -> None:
    named = re.findall(
        r"^\| (GET|POST|PATCH|DELETE) \| `(/api/v1[^`]*)`", INTERFACE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(named) > 15
    assert set(named) <= ROUTE_SCOPES.keys()
