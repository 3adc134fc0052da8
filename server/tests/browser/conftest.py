"""A real browser, pages of an application on an origin of its own, and a service that they call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.responses import data
from tests.browser.chromium import browser  # noqa: F401  (a fixture)
from tests.browser.sites import Site
from tests.deployments import Deployments
from tests.service import ApiClient, Service, running_service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, FilePayload, Page


NOTE: FilePayload = {"name": "note.txt", "mimeType": "text/plain", "buffer": b"Wind and rain, all day long.\n" * 20}
EXE: FilePayload = {"name": "setup.exe", "mimeType": "application/octet-stream", "buffer": b"MZ" + b"\1" * 500}


def renamed(file: FilePayload, name: str) -> FilePayload:
    return {"name": name, "mimeType": file["mimeType"], "buffer": file["buffer"]}


PACKAGES = Path(__file__).parent / "node_modules"


@pytest.fixture(scope="session")
def browser_service(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local")) as service:
        yield service


@pytest.fixture
def client(browser_service: Service) -> ApiClient:
    return browser_service.new_client()


@pytest.fixture(scope="session")
def app() -> Iterator[Site]:
    """The application's pages: another origin than that of the service."""
    with Site.running() as site:
        yield site


@pytest.fixture(scope="session")
def elsewhere() -> Iterator[Site]:
    """Pages of an origin that is not listed."""
    with Site.running() as site:
        yield site


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:  # noqa: F811  (the fixture)
    made = browser.new_context(locale="en-GB")
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page; the test fails if its console had an error, a violated policy among them."""
    opened = context.new_page()
    errors = watch_console(opened)
    yield opened
    assert errors == []


def require_packages() -> None:
    """Skip the test if the npm packages are missing."""
    if not PACKAGES.exists():
        pytest.skip("this setup has no npm packages: `make servers` installs them where npm is")


def watch_console(page: Page) -> list[str]:
    """Return the list into which errors of the page's console are written."""
    errors: list[str] = []

    def on_message(message: ConsoleMessage) -> None:
        # The browser itself reports each response of 400 or more, which is what many of these tests are about.
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
            errors.append(message.text)

    page.on("console", on_message)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


IssueToken = Callable[..., dict[str, Any]]


@pytest.fixture
def issue(client: ApiClient) -> IssueToken:
    """Return what makes an upload token for three text files."""

    def make(**more: Any) -> dict[str, Any]:
        context = more.pop("context", None) or client.create_context(allowed_extensions=["txt", "pdf", "png", "bin"])
        body = {"context": context, "max_files": 3} | more
        made: dict[str, Any] = data(client.post("/upload-tokens", body), 201)
        return made

    return make
