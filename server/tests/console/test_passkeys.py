"""Named users of the console: invitations, passkeys, roles, and every sign-in that must not begin a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from sqlalchemy import Table, func, select

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import console_challenges, console_passkeys, console_sessions, console_users
from sluice.erasures.repository import end_sessions
from sluice.errors import TooManyRequests
from sluice.sessions.service import Sessions
from sluice.tenants.repository import delete_things
from sluice.users.passkeys import RelyingParty
from sluice.users.service import Users
from tests.api.responses import page
from tests.console.authenticator import PRESENT, SoftwareAuthenticator
from tests.console.users import SAME_ORIGIN, User, match, new_browser, signed_in
from tests.rows import each_row, every_row
from tests.service import ApiClient

HOME = "/console/overview"
OF_USERS = (console_users, console_passkeys, console_sessions)


@dataclass
class Person:
    """A browser with an authenticator."""

    http: httpx.Client
    device: SoftwareAuthenticator

    def post(self, path: str, **fields: str) -> httpx.Response:
        response = self.http.post(f"/console{path}", data=fields, headers=SAME_ORIGIN)
        assert response.status_code != 500, response.text
        return response

    def options(self, path: str) -> dict[str, Any]:
        response = self.post(path)
        assert response.status_code == 200, response.text
        options: dict[str, Any] = response.json()
        return options

    def join(self, link: str) -> httpx.Response:
        return self.post(link, credential=self.device.create(self.options(f"{link}/options")))

    def sign_in(self) -> httpx.Response:
        return self.post("/passkey", credential=self.device.get(self.options("/passkey/options")))

    def is_signed_in(self) -> bool:
        return self.http.get("/console/account").status_code == 200


@contextmanager
def person(client: ApiClient) -> Iterator[Person]:
    with new_browser(client.service) as http:
        yield Person(http, SoftwareAuthenticator(f"http://localhost:{client.service.port}"))


def invite(admin: User, role: str = "viewer", name: str = "Vera") -> str:
    shown = admin.post("/users/new", name=name, role=role)
    assert shown.status_code == 200, shown.text
    return match(r"http://localhost:\d+/console(/join/[^<]+)<", shown.text)


def user_id_of(link: str) -> str:
    return link.split(".")[1]


def write(client: ApiClient, table: Table, **values: object) -> None:
    """Change the rows of the tenant, or all of a table without tenants."""

    async def act(database: Database) -> None:
        own = [table.c.tenant_id == client.tenant_id] if "tenant_id" in table.c else []
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(table.update().where(*own).values(values))

    client.service.on_database(act)


@pytest.mark.engine
@pytest.mark.asvs("6.3.3")
def test_invited_user_registers_a_passkey_and_signs_in_with_it_without_a_name(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as admin, person(bare_client) as vera:
        assert "invite yourself" in admin.get("/users").text
        link = invite(admin)
        assert "Vera" in vera.http.get(f"/console{link}").text
        joined = vera.join(link)
        assert (joined.status_code, joined.headers["location"]) == (303, "/console")
        assert vera.http.get(HOME).status_code == 200
        assert vera.post("/logout").status_code == 303
        assert not vera.is_signed_in()
        assert vera.sign_in().status_code == 303
        assert vera.is_signed_in()
        assert "Vera" in admin.get("/users").text
        admin.post(f"/users/{user_id_of(link)}/change", role="reviewer")
    entries = page(bare_client.get("/audit"))[0]
    assert [entry["reason"] for entry in entries if entry["action"] == "console_user.changed"] == [
        "role: viewer to reviewer"
    ]
    done = [(entry["action"], entry["actor_name"]) for entry in entries]
    for step in (("console_user.joined", "Vera"), ("console.signed_in", "Vera"), ("console_user.invited", "Ada")):
        assert step in done


@pytest.mark.asvs("6.4.1")
def test_invitation_works_once_within_a_day_and_until_another_replaces_it(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as admin, person(bare_client) as vera, person(bare_client) as thief:
        used, replaced = invite(admin), invite(admin)
        assert vera.join(used).status_code == 303
        admin.post(f"/users/{user_id_of(replaced)}/invite")
        late = invite(admin)
        write(bare_client, console_users, invited_until=datetime.now(UTC) - timedelta(seconds=1))
        foreign = f"/join/ten_other.{late.split('.', 1)[1]}"
        ended = invite(admin)
        for status in ("disabled", "active"):
            admin.post(f"/users/{user_id_of(ended)}/change", status=status)
        for link in (used, replaced, late, foreign, ended, "/join/x", f"{late}x"):
            assert thief.http.get(f"/console{link}").status_code == 403, link
            assert thief.post(f"{link}/options").status_code == 401, link
            assert thief.post(link, credential="{}").status_code == 403, link
        assert not thief.is_signed_in()


@dataclass
class Attempt:
    """A user who is about to sign in, and who else there is."""

    vera: Person
    user_id: str
    options: dict[str, Any]
    admin: User
    elsewhere: User

    def from_another_origin(self) -> None:
        self.vera.device.origin = "http://localhost:1"

    def for_another_site(self) -> None:
        self.options["rpId"] = "127.0.0.1"

    def without_verification(self) -> None:
        self.vera.device.flags = PRESENT

    def with_challenge_of_another_browser(self) -> None:
        with person(self.admin.client) as second:
            self.options = second.options("/passkey/options")

    def with_used_challenge(self) -> None:
        kept = self.vera.http.cookies["sluice_passkey"]
        assert self.vera.post("/passkey", credential=self.vera.device.get(self.options)).status_code == 303
        self.vera.post("/logout")
        self.vera.http.cookies.set("sluice_passkey", kept, domain="127.0.0.1")

    def with_old_challenge(self) -> None:
        write(self.admin.client, console_challenges, expires_at=datetime.now(UTC) - timedelta(seconds=1))

    def with_a_copy(self) -> None:
        write(self.admin.client, console_passkeys, sign_count=7)

    def as_another_user(self) -> None:
        self.vera.device.user_handle = user_id_of(invite(self.admin)).encode()

    def as_nobody(self) -> None:
        self.vera.device.user_handle = b""

    def as_user_of_another_tenant(self) -> None:
        self.vera.device.user_handle = user_id_of(invite(self.elsewhere)).encode()

    def when_disabled(self) -> None:
        self.admin.post(f"/users/{self.user_id}/change", status="disabled")

    def when_suspended(self) -> None:
        self.admin.client.set_status("suspended")

    def when_removed(self) -> None:
        self.admin.post(f"/users/{self.user_id}/remove", sure="yes")

    def with_unknown_passkey(self) -> None:
        self.vera.device.credential_id = b"unknown"


REFUSED: tuple[tuple[Callable[[Attempt], None], str], ...] = (
    (Attempt.from_another_origin, "Unexpected client data origin"),
    (Attempt.for_another_site, "Unexpected RP ID hash"),
    (Attempt.without_verification, "user was not verified"),
    (Attempt.with_challenge_of_another_browser, "challenge was not expected"),
    (Attempt.with_used_challenge, "this browser did not ask for it"),
    (Attempt.with_old_challenge, "too long ago"),
    (Attempt.with_a_copy, "sign count"),
    (Attempt.as_another_user, "another user's"),
    (Attempt.as_nobody, "another user's"),
    (Attempt.as_user_of_another_tenant, "another user's"),
    (Attempt.when_disabled, "the user is disabled, or"),
    (Attempt.when_removed, "the passkey is unknown"),
    (Attempt.with_unknown_passkey, "the passkey is unknown"),
    (Attempt.when_suspended, "or the tenant suspended"),  # the last one: the tenant stays suspended
)


@pytest.mark.asvs("6.7.1", "6.7.2")
def test_refused_sign_in_begins_no_session(bare_client: ApiClient) -> None:
    log = bare_client.service.log
    with person(bare_client) as vera:
        for credential in ("", "{}", "[]", "x" * 60_000):
            vera.options("/passkey/options")
            assert vera.post("/passkey", credential=credential).status_code == 403
    with signed_in(bare_client) as admin, signed_in(bare_client.other_tenant_client()) as elsewhere, every_row() as row:
        for spoil, why in REFUSED:
            with row(spoil.__name__), person(bare_client) as vera:
                link = invite(admin)
                assert vera.join(link).status_code == 303
                vera.post("/logout")
                attempt = Attempt(vera, user_id_of(link), vera.options("/passkey/options"), admin, elsewhere)
                spoil(attempt)
                before = len(log.read_text())
                refused = vera.post("/passkey", credential=vera.device.get(attempt.options))
                assert refused.status_code == 403
                assert "The passkey was not accepted" in refused.text
                assert why in log.read_text()[before:], log.read_text()[before:]
                assert not vera.is_signed_in()
    bare_client.set_status("active")
    refusals = [entry for entry in page(bare_client.get("/audit", page_size=100))[0] if entry["outcome"] == "refused"]
    assert {(entry["action"], entry["actor_name"]) for entry in refusals} == {("console.signed_in", "Vera")}


@pytest.mark.asvs("7.4.2", "7.4.5")
def test_role_and_end_of_a_user_hold_for_its_next_request(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as admin, person(bare_client) as vera:
        link = invite(admin)
        place = f"/users/{user_id_of(link)}"
        assert vera.join(link).status_code == 303

        def opens() -> list[int]:
            return [vera.http.get(f"/console{path}").status_code for path in ("/files", "/quarantine", "/users")]

        assert opens() == [200, 403, 403]
        for role, opened in (("reviewer", [200, 200, 403]), ("admin", [200, 200, 200])):
            admin.post(f"{place}/change", role=role)
            assert opens() == opened
        for itself in (("change", {"role": "viewer"}), ("change", {"status": "disabled"}), ("remove", {"sure": "yes"})):
            assert vera.post(f"{place}/{itself[0]}", **itself[1]).status_code == 422
        admin.post(f"{place}/sessions")
        assert opens() == [303, 303, 303]
        assert vera.sign_in().status_code == 303
        admin.post(f"{place}/change", status="disabled")
        assert opens() == [303, 303, 303]
        admin.post(f"{place}/change", status="active")
        assert opens() == [303, 303, 303], "its sessions are over"
        assert vera.sign_in().status_code == 303
        admin.post(f"{place}/remove")
        assert vera.is_signed_in(), "it was only asked"
        admin.post(f"{place}/remove", sure="yes")
        assert opens() == [303, 303, 303]
        assert admin.post(f"{place}/invite").status_code == 404


def test_user_adds_a_second_passkey_and_a_new_link_replaces_all(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as admin, person(bare_client) as vera:
        link = invite(admin)
        first = vera.device
        assert vera.join(link).status_code == 303
        vera.device = second = SoftwareAuthenticator(first.origin)
        options = vera.options("/account/options")
        assert len(options["excludeCredentials"]) == 1
        assert vera.post("/account/passkeys", credential="{}").headers["location"].endswith("notice=refused")
        options = vera.options("/account/options")
        assert vera.post("/account/passkeys", credential=second.create(options)).headers["location"].endswith("account")
        for device in (first, second):
            vera.post("/logout")
            vera.device = device
            assert vera.sign_in().status_code == 303
        shown = admin.post(f"/users/{user_id_of(link)}/invite").text
        vera.device = third = SoftwareAuthenticator(first.origin)
        assert vera.join(match(r"/console(/join/[^<]+)<", shown)).status_code == 303
        vera.post("/logout")
        for device, status in ((first, 403), (second, 403), (third, 303)):
            vera.device = device
            assert vera.sign_in().status_code == status
        assert admin.http.get("/console/account").status_code == 404
        assert admin.post("/account/options").status_code == 404


@pytest.mark.asvs("6.3.1")
def test_address_begins_a_limited_number_of_attempts_in_a_minute(bare_client: ApiClient) -> None:
    async def attempt(database: Database) -> None:
        users = Users(database, Sessions(database), "https://sluice.example", attempts_per_minute=2)
        for _ in range(2):
            await users.begin_sign_in("192.0.2.1")
        with pytest.raises(TooManyRequests):
            await users.begin_sign_in("192.0.2.1")
        await users.begin_sign_in("192.0.2.2")

    bare_client.service.on_database(attempt)


@each_row(
    "address, site",
    [
        ("https://sluice.example", ("sluice.example", "https://sluice.example")),
        ("https://sluice.example:8443", ("sluice.example", "https://sluice.example:8443")),
        ("http://127.0.0.1:8000", ("localhost", "http://localhost:8000")),
        ("http://[::1]:8000", ("localhost", "http://localhost:8000")),
        ("https://192.0.2.7", None),
    ],
)
def test_site_of_passkeys_is_the_host_of_the_public_address(address: str, site: tuple[str, str] | None) -> None:
    assert RelyingParty.of(address) == (None if site is None else RelyingParty(*site))


@pytest.mark.engine
def test_erasure_of_a_user_and_deletion_of_the_tenant_leave_nothing_of_it(bare_client: ApiClient) -> None:
    async def left(database: Database) -> list[int]:
        async with database.reading(bare_client.tenant_id) as connection:
            own = [select(func.count()).where(table.c.tenant_id == bare_client.tenant_id) for table in OF_USERS]
            return [(await connection.execute(query)).scalar_one() for query in own]

    async def erase(database: Database) -> None:
        async with database.transaction(bare_client.tenant_id) as connection:
            await end_sessions(connection, bare_client.tenant_id, user_id_of(links[0]))

    async def delete_tenant(database: Database) -> None:
        async with database.transaction(bare_client.tenant_id) as connection:
            while await delete_things(connection, bare_client.tenant_id, 1):
                pass

    with signed_in(bare_client) as admin:
        links = [invite(admin), invite(admin)]
        for link in links:
            with person(bare_client) as vera:
                assert vera.join(link).status_code == 303
    assert bare_client.service.on_database(left) == [2, 2, 3]
    bare_client.service.on_database(erase)
    assert bare_client.service.on_database(left) == [1, 1, 2]
    bare_client.service.on_database(delete_tenant)
    assert bare_client.service.on_database(left) == [0, 0, 0]
