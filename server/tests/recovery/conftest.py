"""A service for each module: an audit visits the bucket of every tenant, and the shared services have many."""

from collections.abc import Iterator

import pytest

from tests.deployments import Deployments
from tests.service import Service, running_service


@pytest.fixture(scope="module")
def service(deployments: Deployments, setup_name: str) -> Iterator[Service]:
    """The running service of the setup, with only the tenants of this module."""
    with running_service(deployments.fresh(setup_name)) as running:
        yield running
