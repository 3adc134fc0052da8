"""Users of the console: their links, their browsers as HTTP clients, and what they do there."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from sluice.db.database import Database
from sluice.sessions.service import Sessions
from tests.operator_action import operator_action
from tests.service import ApiClient, Service

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}


def new_link(client: ApiClient, scopes: Sequence[str] = ("admin",), user: str = "Ada") -> str:
    async def create(database: Database) -> str:
        by = operator_action(client.tenant_id)
        return (await Sessions(database).create_link(by, f"console|{user}", user, scopes)).text

    return f"/console/login/{client.service.on_database(create)}"


@contextmanager
def new_browser(service: Service) -> Iterator[httpx.Client]:
    """Yield a browser without any cookie; it follows no redirects."""
    with httpx.Client(base_url=service.url, timeout=60) as http:
        yield http


@dataclass(frozen=True)
class User:
    client: ApiClient
    http: httpx.Client

    def get(self, path: str) -> httpx.Response:
        response = self.http.get(f"/console{path}", headers=SAME_ORIGIN)
        assert response.status_code != 500, response.text
        return response

    def post(self, path: str, **fields: str | list[str]) -> httpx.Response:
        response = self.http.post(f"/console{path}", data=fields, headers=SAME_ORIGIN)
        assert response.status_code != 500, response.text
        return response

    def follow(self, response: httpx.Response) -> str:
        assert response.status_code == 303, response.text
        return self.get(response.headers["location"].removeprefix("/console")).text


def match(pattern: str, page: str) -> str:
    """Return the first match in a page: its group, or everything without one."""
    found = re.search(pattern, page)
    assert found is not None, f"nothing matches {pattern}"
    return found[1 if found.re.groups else 0]


def sign_in(http: httpx.Client, link: str) -> httpx.Response:
    http.get(link)
    return http.post(link, headers=SAME_ORIGIN)


@contextmanager
def signed_in(client: ApiClient, *scopes: str) -> Iterator[User]:
    """Yield a user of the client's tenant, by default an admin."""
    with new_browser(client.service) as http:
        assert sign_in(http, new_link(client, scopes or ("admin",))).status_code == 303
        yield User(client, http)
