"""Fixtures of the contract tests alone; the setups and gates are in `tests/conftest.py`."""

from collections.abc import Iterator

import pytest

from tests.gate import Gate, Service, running_service
from tests.servers.radosgw import RadosGateway


@pytest.fixture
def weir(s3: RadosGateway, newcomer: Gate) -> Gate:
    """A fresh tenant without a bucket, where there is an S3 to add one in."""
    return newcomer


@pytest.fixture(scope="module")
def second(service: Service) -> Iterator[Service]:
    """Another process of the same service, on the same database and store."""
    with running_service(service.place) as process:
        yield process
