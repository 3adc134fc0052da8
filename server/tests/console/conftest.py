"""A real browser, and a service with the tenant of `sluice demo`."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.chromium import browser  # noqa: F401  (a fixture)
from tests.cli.forked import run_forked
from tests.console.users import User, match, new_link, signed_in
from tests.deployments import Deployments
from tests.service import ApiClient, Service, running_service

AXE = Path(__file__).parents[1] / "browser" / "node_modules" / "axe-core" / "axe.min.js"


@dataclass(frozen=True)
class Demo:
    service: Service
    tenant_id: str

    def new_link(self) -> str:
        return self.service.url + new_link(ApiClient(self.service, self.tenant_id, None))


@pytest.fixture(scope="session")
def demo(deployments: Deployments) -> Iterator[Demo]:
    with running_service(deployments.fresh("sqlite-local")) as service:
        folder = service.deployment.folder
        out, err = folder / "demo.out", folder / "demo.err"
        assert run_forked(["demo", "--url", service.url], service.environment, folder, out, err) == 0, err.read_text()
        yield Demo(service, match(r"ten_[0-9a-z]+", out.read_text()))


@pytest.fixture
def admin(client: ApiClient) -> Iterator[User]:
    """A user who may do everything for the client's tenant."""
    with signed_in(client) as user:
        yield user
