"""A clamd with the limits of Debian's clamd.conf, which does not report what it skips. `make stock-clamd` has more."""

import io
import random
import zipfile
from collections.abc import Iterator

import pytest

from tests.api.responses import assert_rejected, data
from tests.deployments import Deployments
from tests.inspection.threats.packed_files import EICAR
from tests.observe.metrics_page import until
from tests.servers.clamd import running_clamd
from tests.service import ApiClient, Service, running_service

STOCK = {"MaxScanSize": "100M", "MaxFileSize": "25M", "StreamMaxLength": "25M", "AlertExceedsMax": "no"}
MIB = 2**20


@pytest.fixture(scope="module")
def stock_client(deployments: Deployments, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with (
        running_clamd(tmp_path_factory.mktemp("stock"), {**STOCK, "AlertEncrypted": "no"}) as clamd,
        running_service(deployments.fresh("sqlite-local"), SCANNER="clamd", CLAMD=clamd.address) as service,
    ):
        until(lambda: scanned_bytes(service), lambda scanned: scanned == 25 * MIB)
        yield service.new_client()


def scanned_bytes(service: Service) -> object:
    engines = service.ready().json()["engines"]
    return next(engine for engine in engines if engine["kind"] == "scanner")["limits"]["scanned_bytes"]


def zip_of(*members: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, member in enumerate(members):
            archive.writestr(f"{number}.txt", member)
    return target.getvalue()


def text_of(megabytes: int) -> bytes:
    return random.Random(megabytes).randbytes(1000).hex().encode() * (megabytes * MIB // 2000)


def test_files_within_limits_are_stored_and_others_rejected(stock_client: ApiClient) -> None:
    context = stock_client.create_context(reject_corrupt_files=False, max_file_size_mb=25)
    data(stock_client.upload("a.txt", b"Hello", context=context), 201)
    data(stock_client.upload("b.zip", zip_of(b"Hello", text_of(3)), context=context), 201)
    assert_rejected(stock_client.upload("c.zip", zip_of(b"Hello", EICAR), context=context), "virus_detected")
    for name, members in (("part.zip", [text_of(27)]), ("sum.zip", [text_of(20)] * 6)):
        assert_rejected(stock_client.upload(name, zip_of(*members), context=context), "scan_incomplete")
