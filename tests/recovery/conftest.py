"""A service for each file of these tests: an audit looks into the bucket of every tenant, and the shared services have a thousand."""

from collections.abc import Iterator

import pytest

from tests.api.places import Places
from tests.gate import Service, running_service


@pytest.fixture(scope="module")
def service(places: Places, setup_name: str) -> Iterator[Service]:
    """The running service of the setup, with the tenants of this file alone."""
    with running_service(places.fresh(setup_name)) as running:
        yield running
