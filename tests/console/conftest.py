"""A real browser, and a service with the tenant of `sluice demo`."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.browser.chromium import browser  # noqa: F401  (a fixture)
from tests.console.users import User, match, new_link, signed_in
from tests.deployments import Deployments
from tests.service import ApiClient, Service, cli_command, running_service

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
        command = cli_command("demo", "--url", service.url)
        made = subprocess.run(command, env=dict(service.environment), capture_output=True, text=True, check=True)
        yield Demo(service, match(r"ten_[0-9a-z]+", made.stdout))


@pytest.fixture
def admin(client: ApiClient) -> Iterator[User]:
    """A user who may do everything for the client's tenant."""
    with signed_in(client) as user:
        yield user
