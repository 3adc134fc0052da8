import re
from pathlib import Path

import pytest

from sluice.access import ROUTE_SCOPES, SIGNED_ROUTES, Principal, Scope, known_scopes

INTERFACE = Path(__file__).parents[1].parent / "shared" / "interface.md"


def caller(*scopes: Scope) -> Principal:
    return Principal(tenant_id="ten_1", actor_id="key_1", actor_name="one", scopes=frozenset(scopes), via="api_key", key_id="key_1")


@pytest.mark.parametrize("asked", list(Scope))
def test_admin_implies_every_scope(asked: Scope) -> None:
    assert caller(Scope.ADMIN).allows(asked)


@pytest.mark.parametrize("held", [scope for scope in Scope if scope is not Scope.ADMIN])
def test_another_scope_allows_itself_and_nothing_else(held: Scope) -> None:
    assert [scope for scope in Scope if caller(held).allows(scope)] == [held]


def test_a_caller_without_scopes_may_use_routes_that_ask_for_any_credential() -> None:
    assert caller().allows(None)
    assert not caller().allows(Scope.METADATA)


def test_a_caller_grants_only_what_it_holds() -> None:
    assert caller(Scope.UPLOAD, Scope.DELETE).may_grant([Scope.DELETE])
    assert not caller(Scope.UPLOAD).may_grant([Scope.UPLOAD, Scope.ADMIN])
    assert caller(Scope.ADMIN).may_grant(list(Scope))


def test_words_that_are_no_scopes_of_ours_grant_nothing() -> None:
    assert known_scopes(["openid", "upload", "Admin", " admin"]) == {Scope.UPLOAD}


def test_the_scope_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        ROUTE_SCOPES["GET", "/"] = None  # type: ignore[index]  # the refusal is what is tested


def test_only_reading_contexts_asks_for_no_scope() -> None:
    free = {route for route, scope in ROUTE_SCOPES.items() if scope is None}
    assert free == {("GET", "/api/v1/contexts"), ("GET", "/api/v1/contexts/{context_key}")}


def test_no_route_is_both_scoped_and_signed() -> None:
    assert not SIGNED_ROUTES & ROUTE_SCOPES.keys()


def test_every_route_that_writes_outside_the_files_asks_for_admin() -> None:
    writes = {r: s for r, s in ROUTE_SCOPES.items() if r[0] != "GET" and not r[1].startswith("/api/v1/files")}
    assert set(writes.values()) == {Scope.ADMIN}


@pytest.mark.skipif(not INTERFACE.exists(), reason="../shared/interface.md is absent")
def test_every_route_of_the_interface_stands_in_the_table() -> None:
    named = re.findall(r"^\| (GET|POST|PATCH|DELETE) \| `(/api/v1[^`]*)`", INTERFACE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 15
    assert set(named) <= ROUTE_SCOPES.keys()
