"""Fixtures of the contract tests alone; the setups and clients are in `tests/conftest.py`."""

from collections.abc import Iterator

import pytest

from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient, Service, running_service


@pytest.fixture
def client_on_s3(s3: RadosGateway, bare_client: ApiClient) -> ApiClient:
    """An API client of a fresh tenant without a bucket, on a setup with S3."""
    return bare_client


@pytest.fixture(scope="module")
def second_process(service: Service) -> Iterator[Service]:
    """Another process of the same service, on the same database and store."""
    with running_service(service.deployment) as process:
        yield process
