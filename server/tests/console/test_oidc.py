"""Signing in to the console at a real OIDC issuer: the code flow, and every response that is to somebody else."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.console.users import SAME_ORIGIN, new_browser
from tests.deployments import Deployments
from tests.rows import each_row
from tests.servers.oidc_provider import OidcProvider, running_oidc_provider
from tests.service import ApiClient, Service, running_service

LOGIN, CALLBACK = "/console/oidc", "/console/oidc/callback"


@dataclass(frozen=True)
class Place:
    service: Service
    provider: OidcProvider


@pytest.fixture(scope="module")
def place(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with (
        running_oidc_provider(tmp_path_factory.mktemp("issuer")) as provider,
        running_service(deployments.fresh("sqlite-local"), **provider.sign_in_settings) as service,
    ):
        yield Place(service, provider)


@pytest.fixture
def browser(place: Place) -> Iterator[httpx.Client]:
    with new_browser(place.service) as http:
        yield http


def ask(browser: httpx.Client, **more: str) -> str:
    """Begin to sign in; return the address of the issuer."""
    begun = browser.get(LOGIN)
    assert begun.status_code == 303
    return f"{begun.headers['location']}&{urlencode(more)}"


def response_address(address: str) -> str:
    """Visit the issuer as a browser of its own; return the path that it sends the browser back to."""
    with httpx.Client(timeout=20) as http:
        for _ in range(6):
            response = http.get(address)
            address = str(response.url.join(response.headers["location"]))
            if urlsplit(address).path == CALLBACK:
                return f"{CALLBACK}?{urlsplit(address).query}"
    pytest.fail(f"the issuer does not send the browser back: {response.status_code} {response.text}")


def sign_in(browser: httpx.Client, user: str = "ada") -> httpx.Response:
    return browser.get(response_address(ask(browser, login_hint=user)))


def is_signed_in(browser: httpx.Client) -> bool:
    return browser.get("/console/quarantine").status_code == 200


@pytest.mark.asvs("10.1.1", "10.5.2")
def test_user_of_the_issuer_signs_in_and_out(place: Place, browser: httpx.Client) -> None:
    assert "Sign in with your organisation" in browser.get("/console/login").text
    done = sign_in(browser)
    assert (done.status_code, done.headers["location"]) == (303, "/console")
    assert "sluice_oidc" not in browser.cookies
    assert "HttpOnly" in done.headers["set-cookie"]
    page = browser.get("/console/overview").text
    assert "ada of the issuer" in page
    assert "ten_of_people" in page
    entries = browser.get("/console/audit").text
    assert urlencode({"actor": f"{place.provider.issuer}|ada"}) in entries
    assert browser.post("/console/logout", headers=SAME_ORIGIN).status_code == 303
    assert not is_signed_in(browser)


def test_rights_are_those_of_the_token(browser: httpx.Client) -> None:
    assert sign_in(browser, "rita").status_code == 303
    assert browser.get("/console/quarantine").status_code == 200
    assert browser.get("/console/files").status_code == 403


@each_row("user, sentence", [("ulf", "Your account may see nothing here"), ("nobody", "Signing in did not work")])
def test_user_who_may_see_nothing_or_is_refused_sees_why(browser: httpx.Client, user: str, sentence: str) -> None:
    refused = sign_in(browser, user)
    assert refused.status_code == 403
    assert sentence in refused.text
    assert not is_signed_in(browser)


def test_request_has_proof_state_and_nonce(browser: httpx.Client) -> None:
    first, second = (parse_qs(urlsplit(ask(browser)).query) for _ in "12")
    assert (first["code_challenge_method"], first["response_type"]) == (["S256"], ["code"])
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name]


@pytest.mark.asvs("10.2.1")
def test_answer_to_another_browser_is_refused(place: Place, browser: httpx.Client) -> None:
    response = response_address(ask(browser))
    with new_browser(place.service) as victim:
        assert victim.get(response).status_code == 403  # asked for nothing
        ask(victim)
        assert victim.get(response).status_code == 403  # asked for something else
        assert not is_signed_in(victim)


def changed(response: str, **fields: str) -> str:
    query = {name: values[0] for name, values in parse_qs(urlsplit(response).query).items()}
    return f"{CALLBACK}?{urlencode(query | fields)}"


@each_row(
    "fields",
    [
        *({"state": "x" * 43}, {"state": ""}, {"iss": "https://elsewhere.example"}),
        *({"code": "x"}, {"code": ""}, {"code": "\0"}),
    ],
)
def test_wrong_response_is_refused(browser: httpx.Client, fields: dict[str, str]) -> None:
    response = response_address(ask(browser))
    assert browser.get(changed(response, **fields)).status_code == 403
    assert not is_signed_in(browser)
    assert browser.get(response).status_code == 403  # the attempt is over


def test_respond_without_the_issuers_name_or_with_a_parameter_twice_is_refused(browser: httpx.Client) -> None:
    assert browser.get(f"{response_address(ask(browser))}&code=x").status_code == 403
    query = parse_qs(urlsplit(response_address(ask(browser))).query)
    assert browser.get(f"{CALLBACK}?{urlencode({n: query[n][0] for n in ('code', 'state')})}").status_code == 403


@pytest.mark.asvs("10.1.2", "10.5.1")
def test_nonce_and_proof_of_another_attempt_are_refused(browser: httpx.Client) -> None:
    for part in (1, 2):
        response = response_address(ask(browser))
        parts = browser.cookies["sluice_oidc"].split(".")
        parts[part] = "A" * 43
        browser.cookies.clear()
        browser.cookies.set("sluice_oidc", ".".join(parts), domain="127.0.0.1")
        assert browser.get(response).status_code == 403
        assert not is_signed_in(browser)


@pytest.mark.asvs("7.2.4")
def test_answer_works_once_and_makes_a_new_session(place: Place, browser: httpx.Client) -> None:
    sign_in(browser)
    earlier = browser.cookies["sluice_session"]
    response = response_address(ask(browser))
    attempt = browser.cookies["sluice_oidc"]
    assert browser.get(response).status_code == 303
    assert browser.cookies["sluice_session"] != earlier
    with new_browser(place.service) as thief:
        thief.cookies.set("sluice_oidc", attempt, domain="127.0.0.1")
        assert thief.get(response).status_code == 403
        thief.cookies.set("sluice_session", earlier, domain="127.0.0.1")
        assert not is_signed_in(thief)


def test_session_that_was_set_before_is_not_taken_over(browser: httpx.Client) -> None:
    fixed = f"ten_of_people.ses_{'0' * 26}.{'a' * 43}"
    browser.cookies.set("sluice_session", fixed, domain="127.0.0.1")
    assert sign_in(browser).status_code == 303
    assert fixed not in str(browser.cookies.jar)


def test_pages_of_the_flow_cannot_be_framed_or_kept_and_take_no_forms_of_other_sites(browser: httpx.Client) -> None:
    for path in (LOGIN, CALLBACK, "/console/login"):
        headers = browser.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
    for path in (LOGIN, CALLBACK):
        assert browser.post(path, headers={"Sec-Fetch-Site": "cross-site"}).status_code in {403, 405}


def test_cookies_are_bound_to_host_and_https(deployments: Deployments, place: Place) -> None:
    settings = place.provider.sign_in_settings | {"PUBLIC_URL": "https://sluice.example"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service, new_browser(service) as http:
        cookie = http.get(LOGIN).headers["set-cookie"]
    assert cookie.startswith("__Host-sluice_oidc=")
    for attribute in ("Secure", "HttpOnly", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert attribute in cookie
    assert "Domain" not in cookie


def test_issuer_that_is_away_is_a_503(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_oidc_provider(tmp_path_factory.mktemp("gone")) as provider:
        settings = provider.sign_in_settings
    with running_service(deployments.fresh("sqlite-local"), **settings) as service, new_browser(service) as http:
        assert http.get(LOGIN).status_code == 503


def test_without_an_issuer_there_is_no_such_way_in(shared_client: ApiClient) -> None:
    with new_browser(shared_client.service) as http:
        assert http.get(LOGIN).status_code == 404
        assert http.get(CALLBACK).status_code == 404
        assert "organisation" not in http.get("/console/login").text
