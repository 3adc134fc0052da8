"""Signing in to the console: one-time links, sessions, and the requests of other sites."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Table, select, text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import console_links, console_sessions
from sluice.sessions import repository
from tests.api.responses import page
from tests.console.users import SAME_ORIGIN, new_browser, new_link, sign_in, signed_in
from tests.deployments import Deployments
from tests.rows import each_row
from tests.service import ApiClient, running_service

HOME = "/console/overview"


def set_expired(client: ApiClient, table: Table) -> None:
    async def act(database: Database) -> None:
        async with database.transaction(ALL_TENANTS) as connection:
            past = datetime.now(UTC) - timedelta(seconds=1)
            own = table.c.tenant_id == client.tenant_id
            await connection.execute(table.update().where(own).values(expires_at=past))

    client.service.on_database(act)


@pytest.mark.asvs("7.2.2", "7.2.3", "3.3.1", "3.3.2", "3.3.4")
def test_link_begins_a_session_in_a_cookie_that_no_script_reads(bare_client: ApiClient) -> None:
    with new_browser(bare_client.service) as http:
        response = sign_in(http, new_link(bare_client))
        assert (response.status_code, response.headers["location"]) == (303, "/console")
        (cookie,) = [each for each in response.headers.get_list("set-cookie") if each.startswith("sluice_session=")]
        for attribute in ("httponly", "samesite=lax", "path=/", "max-age=28800"):
            assert attribute in cookie.lower()
        assert "domain" not in cookie.lower()
        assert http.get(HOME).status_code == 200


@pytest.mark.engine
@pytest.mark.asvs("7.2.1", "7.4.1")
def test_link_works_once_in_the_browser_that_opened_it_and_for_a_minute(bare_client: ApiClient) -> None:
    link = new_link(bare_client)
    with new_browser(bare_client.service) as http:
        assert sign_in(http, link).status_code == 303
        http.cookies.delete("sluice_session")
        assert sign_in(http, link).status_code == 403
        assert http.get(HOME).status_code == 303
    with new_browser(bare_client.service) as other:
        assert sign_in(other, link).status_code == 403
    link = new_link(bare_client)
    with new_browser(bare_client.service) as first, new_browser(bare_client.service) as second:
        first.head(link)
        assert "sluice_session" not in first.get(link).cookies
        assert first.get(HOME).status_code == 303, "opening a link does not sign in"
        assert second.get(link).status_code == 403
        assert second.post(link, headers=SAME_ORIGIN).status_code == 403
        assert first.get(link).status_code == 200
        assert first.post(link, headers=SAME_ORIGIN).status_code == 303
        late = new_link(bare_client)
        assert second.get(late).status_code == 200
        set_expired(bare_client, console_links)
        assert second.post(late, headers=SAME_ORIGIN).status_code == 403
        assert second.get(late).status_code == 403
        for unknown in ("x", "ten_1.lnk_1.x", "ten_1.lnk_" + "0" * 26 + "." + "a" * 43, "%00", "a" * 500):
            assert second.get(f"/console/login/{unknown}").status_code in {403, 404}


@pytest.mark.asvs("7.2.4")
def test_session_is_always_a_new_one_and_none_that_was_set_before_is_taken_over(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as user, new_browser(bare_client.service) as other:
        earlier = user.http.cookies["sluice_session"]
        assert sign_in(user.http, new_link(bare_client)).status_code == 303
        assert user.http.cookies["sluice_session"] != earlier
        for known in (earlier, f"{bare_client.tenant_id}.ses_{'0' * 26}.{'a' * 43}"):
            other.cookies.set("sluice_session", known, domain="127.0.0.1")
            assert other.get(HOME).status_code == 303
        assert sign_in(other, new_link(bare_client)).status_code == 303
        assert "ses_" + "0" * 26 not in str(other.cookies.jar)


@pytest.mark.engine
@pytest.mark.asvs("7.3.2")
def test_session_ends_after_eight_hours_and_is_deleted(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as user, signed_in(bare_client.other_tenant_client()) as other:
        set_expired(bare_client, console_sessions)
        assert user.get("/overview").status_code == 303
        assert user.post("/contexts/new").status_code == 401
        other.client.set_status("suspended")
        assert other.get("/overview").status_code == 303, "it ends with the tenant, too"
    with signed_in(bare_client):
        pass
    new_link(bare_client)
    set_expired(bare_client, console_links)
    set_expired(bare_client, console_sessions)

    async def delete(database: Database) -> int:
        async with database.transaction(ALL_TENANTS) as connection:
            await repository.delete_expired(connection, datetime.now(UTC), 1000)
            left = text("SELECT count(*) FROM console_sessions WHERE tenant_id = :tenant_id")
            return int((await connection.execute(left, {"tenant_id": bare_client.tenant_id})).scalar_one())

    assert bare_client.service.on_database(delete) == 0


@pytest.mark.engine
@pytest.mark.asvs("7.4.1")
def test_logout_ends_the_session_and_not_only_its_cookie(bare_client: ApiClient) -> None:
    with signed_in(bare_client) as user:
        kept = user.http.cookies["sluice_session"]
        response = user.post("/logout")
        assert response.status_code == 303
        assert response.headers["clear-site-data"]
        with new_browser(bare_client.service) as thief:
            thief.cookies.set("sluice_session", kept, domain="127.0.0.1")
            assert thief.get(HOME).status_code == 303
    entries = page(bare_client.get("/audit"))[0]
    done = [(entry["action"], entry["actor_name"]) for entry in entries if entry["via"] == "console"]
    assert {("console.signed_in", "Ada"), ("console.signed_out", "Ada")} <= set(done)


@each_row(
    "headers",
    [
        {},
        *({"Sec-Fetch-Site": site} for site in ("cross-site", "same-site", "none")),
        *({"Origin": origin} for origin in ("https://elsewhere.example", "null", "http://127.0.0.1")),
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://elsewhere.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "{own}"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://{host}"},
        {"Origin": "https://{host}", "X-Forwarded-Proto": "https"},  # of no proxy
        *({"Origin": origin} for origin in ("{own}/", "{own}0", "{host}", "http://user@{host}", "")),
    ],
)
@pytest.mark.asvs("3.5.1", "3.5.3")
def test_form_of_another_site_is_refused(bare_client: ApiClient, headers: dict[str, str]) -> None:
    own = bare_client.service.url
    host = own.removeprefix("http://")
    sent = {name: value.replace("{own}", own).replace("{host}", host) for name, value in headers.items()}
    with signed_in(bare_client) as user:
        for path in ("/keys/new", "/logout", "/contexts/new"):
            fields = {"name": "stolen", "scope.admin": "on", "context_key": "stolen", "display_name": "x"}
            response = user.http.post(f"/console{path}", data=fields, headers=sent)
            assert response.status_code == 403
            assert "Request of another site" in response.text
        assert user.get("/overview").status_code == 200
    assert page(bare_client.get("/contexts"))[0] == []
    link = new_link(bare_client)
    with new_browser(bare_client.service) as http:
        http.get(link)
        assert http.post(link, headers=sent).status_code == 403


def test_scheme_of_the_console_is_that_of_its_public_address_or_of_a_trusted_proxy(deployments: Deployments) -> None:
    named, other, forwarded = {"Host": "sluice.example"}, {"Host": "other.example"}, {"X-Forwarded-Proto": "https"}
    behind_tls: list[tuple[str, dict[str, str], int]] = [  # the proxy does not say how it was reached
        ("https://sluice.example", named, 401),
        ("https://sluice.example", other, 403),
        ("http://sluice.example", named, 403),
        ("https://{host}", {}, 401),
        ("http://{host}", {}, 401),  # on the machine itself
    ]
    forwarding: list[tuple[str, dict[str, str], int]] = [
        ("https://{host}", forwarded, 401),
        ("https://{host}", {}, 403),
        ("http://{host}", forwarded, 403),
        ("http://{host}", {}, 401),
    ]
    for setting, value, rows in (
        ("PUBLIC_URL", "https://sluice.example", behind_tls),
        ("TRUSTED_PROXIES", "127.0.0.1", forwarding),
    ):
        embedded = deployments.fresh("sqlite-local")
        with running_service(embedded, **{setting: value}) as service, new_browser(service) as http:
            for template, headers, status in rows:
                origin = template.replace("{host}", service.url.removeprefix("http://"))
                response = http.post("/console/logout", headers={**headers, "Origin": origin})
                assert response.status_code == status, (setting, origin, headers)


@pytest.mark.asvs("3.4.3", "3.4.6", "3.4.8", "14.3.2")
def test_page_cannot_be_framed_or_kept_and_its_policy_allows_no_inline_code_or_other_hosts(
    bare_client: ApiClient,
) -> None:
    with signed_in(bare_client) as user:
        for path in ("/console/login", "/console/overview", "/console/keys/new", "/console/nothing", "/"):
            headers = user.http.get(path, headers={"Accept": "text/html"}).headers
            assert "frame-ancestors 'none'" in headers["content-security-policy"], path
            kept = {"x-frame-options": "DENY", "cache-control": "no-store", "x-content-type-options": "nosniff"}
            assert {name: headers[name] for name in kept} == kept, path
        response = user.get("/overview")
        assert response.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert not re.search(r"<script(?![^>]*src=)|<style| style=| on[a-z]+=", response.text)
        # a form with the own origin is taken from older browsers
        response = user.http.post("/console/logout", headers={"Origin": bare_client.service.url})
        assert response.status_code == 303


def test_no_api_key_and_no_user_who_may_see_nothing_gets_into_the_console_nor_a_session_into_the_api(
    bare_client: ApiClient,
) -> None:
    for scope in ("upload", "admin"):
        key = bare_client.create_key(scope)
        with new_browser(bare_client.service) as http:
            for headers in ({"Authorization": f"Bearer {key.text}"}, {"Cookie": f"sluice_session={key.text}"}):
                assert http.get(HOME, headers=headers).status_code == 303
    with signed_in(bare_client) as user:
        assert user.http.get("/api/v1/contexts").status_code == 401
        text_of_cookie = user.http.cookies["sluice_session"]
        assert user.http.get("/api/v1/contexts", headers={"Authorization": text_of_cookie}).status_code == 401
    for scope in ("upload", "download", "delete"):
        with new_browser(bare_client.service) as http:
            assert sign_in(http, new_link(bare_client, (scope,))).status_code == 403
            assert http.get(HOME).status_code == 303


@pytest.mark.engine
def test_only_hashes_are_kept(bare_client: ApiClient) -> None:
    link = new_link(bare_client)

    async def read(database: Database) -> str:
        async with database.reading(ALL_TENANTS) as connection:
            rows = [(await connection.execute(select(table))).all() for table in (console_links, console_sessions)]
            return str(rows)

    with new_browser(bare_client.service) as http:
        http.get(link)
        kept = bare_client.service.on_database(read)
        assert link.rpartition(".")[2] not in kept
        assert http.cookies["sluice_login"] not in kept
        http.post(link, headers=SAME_ORIGIN)
        assert http.cookies["sluice_session"].rpartition(".")[2] not in bare_client.service.on_database(read)


def test_console_over_plain_http_is_for_one_machine_only_whose_root_leads_there(bare_client: ApiClient) -> None:
    link = new_link(bare_client)
    with new_browser(bare_client.service) as http:
        for path in (link, HOME, "/console/login"):
            response = http.get(path, headers={"Host": "sluice.example"})
            assert response.status_code == 403
            assert "needs https" in response.text
            assert "set-cookie" not in response.headers
        led = http.get("/", headers={"Accept": "text/html,application/xhtml+xml"})
        assert (led.status_code, led.headers["location"]) == (303, "/console")
        assert http.get("/", headers={"Accept": "application/json"}).status_code == 404
