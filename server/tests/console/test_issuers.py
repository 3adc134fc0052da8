"""Signing in to the console with what Keycloak and Authentik send, under the settings of docs/how-to/oidc.md."""

import re
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.console.users import new_browser
from tests.deployments import Deployments
from tests.docs.pages import DOCS
from tests.servers.described_issuer import CLIENT, DescribedIssuer, running_authentik, running_keycloak
from tests.service import Service, running_service

FILES, QUARANTINE, KEYS = "/console/files", "/console/quarantine", "/console/keys"
# What the roles of docs/how-to/oidc.md open: the scopes in the ID token, and the status of the three pages
ROLES: dict[str, tuple[list[str], list[int]]] = {
    "viewer": (["metadata"], [200, 403, 403]),
    "reviewer": (["metadata", "review"], [200, 200, 403]),
    "admin": (["admin"], [200, 200, 200]),
}

# What Authentik evaluates, as the page has it
MAPPING = re.search(r"```python\n(.*?)```", (DOCS / "how-to" / "oidc.md").read_text(encoding="utf-8"), re.DOTALL)


def mapped(*groups: str) -> dict[str, Any]:
    """Return the claims that the mapping of the page makes for a user of these groups."""
    assert MAPPING is not None
    body = "".join(f"    {line}\n" for line in MAPPING[1].splitlines())
    names: dict[str, Any] = {"ak_is_group_member": lambda _user, *, name: name in groups}
    exec(f"def mapping(request):\n{body}", names)
    claims: dict[str, Any] = names["mapping"](SimpleNamespace(user=None))
    return claims


def settings_for(issuer: DescribedIssuer, jwks_path: str, scopes: str) -> dict[str, str]:
    return {
        "OIDC_ISSUER": issuer.issuer,
        "OIDC_JWKS_URL": f"{issuer.host}{jwks_path}",
        "OIDC_ALGORITHMS": issuer.algorithm,
        "OIDC_PROVISION": "true",
        "CONSOLE_OIDC_CLIENT_ID": CLIENT,
        "CONSOLE_OIDC_CLIENT_SECRET": "a-secret-0123456789",
        "CONSOLE_OIDC_SCOPES": scopes,
    }


def sign_in(browser: httpx.Client, issuer: DescribedIssuer, returned: dict[str, str], **claims: Any) -> httpx.Response:
    """Sign in as the user of `claims`; `returned` is what the issuer adds to the address that leads back."""
    begun = browser.get("/console/oidc")
    assert begun.status_code == 303, begun.text
    asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
    theirs = dict(issuer.claims)
    issuer.claims |= {"nonce": asked["nonce"], **claims}
    back = browser.get(f"/console/oidc/callback?{urlencode({'state': asked['state'], 'code': 'c', **returned})}")
    issuer.claims = theirs
    return back


def check_roles(service: Service, issuer: DescribedIssuer, returned: dict[str, str]) -> None:
    for role, (scopes, pages) in ROLES.items():
        with new_browser(service) as browser:
            done = sign_in(browser, issuer, returned, scopes=scopes)
            assert done.status_code == 303, (role, done.text)
            assert [browser.get(page).status_code for page in (FILES, QUARANTINE, KEYS)] == pages, role
            assert "Ada Lovelace" in browser.get(FILES).text
    with new_browser(service) as browser:
        refused = sign_in(browser, issuer, returned)
        assert refused.status_code == 403
        assert "Your account may see nothing here" in refused.text


def test_user_of_keycloak_signs_in_with_the_client_roles_in_the_claim_scopes(deployments: Deployments) -> None:
    with running_keycloak() as keycloak:
        settings = settings_for(keycloak, "/realms/acme/protocol/openid-connect/certs", "profile")
        returned = {"session_state": "9f00242d-9199-4a0b-978a-5f9c73968385", "iss": keycloak.issuer}
        with running_service(deployments.fresh("sqlite-local"), **settings) as service:
            check_roles(service, keycloak, returned)
            with new_browser(service) as browser:
                # an audience mapper that is on for the ID token, and a single role
                several = {"aud": [CLIENT, "urn:sluice:api"], "scopes": ["metadata"]}
                assert sign_in(browser, keycloak, returned, **several).status_code == 303
            with new_browser(service) as browser:
                # roles of the realm and of other clients grant nothing
                roles = {"realm_access": {"roles": ["admin"]}, "resource_access": {"account": {"roles": ["admin"]}}}
                assert sign_in(browser, keycloak, returned, **roles).status_code == 403


def test_user_of_authentik_signs_in_with_the_scopes_that_a_mapping_makes_of_groups(deployments: Deployments) -> None:
    with running_authentik() as authentik:
        settings = settings_for(authentik, "/application/o/sluice/jwks/", "profile,sluice")
        with running_service(deployments.fresh("sqlite-local"), **settings) as service:
            check_roles(service, authentik, {})
            for role, (scopes, _pages) in ROLES.items():
                assert mapped(f"{role}s", "staff")["scopes"] == scopes
            with new_browser(service) as browser:
                # `profile` puts every group of a user into the token
                groups = [f"a department of the company, number {number}" for number in range(400)]
                assert sign_in(browser, authentik, {}, groups=groups, scopes=["admin"]).status_code == 303
