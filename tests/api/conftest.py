"""Fixtures of the contract tests alone; the setups and gates are in `tests/conftest.py`."""

import pytest

from tests.gate import Gate
from tests.servers.radosgw import RadosGateway


@pytest.fixture
def weir(s3: RadosGateway, newcomer: Gate) -> Gate:
    """A fresh tenant without a bucket, where there is an S3 to add one in."""
    return newcomer
