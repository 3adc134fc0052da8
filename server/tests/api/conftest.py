"""Fixtures of the contract tests alone; the setups and clients are in `server/tests/conftest.py`."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient, Service, running_service


@pytest.fixture
def client_on_s3(s3: RadosGateway, bare_client: ApiClient) -> ApiClient:
    """An API client of a fresh tenant without a bucket, on a setup with S3."""
    return bare_client


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context()


@pytest.fixture(scope="module")
def tenant(service: Service) -> ApiClient:
    return service.new_client()


@pytest.fixture(scope="module")
def caching_process(service: Service) -> Iterator[Service]:
    """Another process of the same service, with the longest cache time."""
    with running_service(replace(service.deployment, own_zygote=False), REMEMBER_SECONDS="10") as process:
        yield process
