"""The clamd.conf that Debian's package writes, unchanged: good files pass, EICAR does not, and limits are reported.

Only places are changed: socket, folders, user and log. It has limits of 25 MB and no `AlertExceedsMax`.
"""

import io
import json
import os
import signal
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.api.responses import assert_rejected, data
from tests.deployments import Deployments
from tests.inspection.threats.containers import MISSED_BY_CLAMD, REQUIRED_CONTAINERS
from tests.inspection.threats.packed_files import EICAR
from tests.observe.metrics_page import until
from tests.required import missing
from tests.run_length import LONG_RUN
from tests.servers.clamd import Clamd, running_clamd
from tests.service import ApiClient, Service, running_service

CONF = Path("/etc/clamav/clamd.conf")
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"
PLACES = {"User", "LocalSocket", "LocalSocketGroup", "DatabaseDirectory", "LogFile", "Foreground"}
LIMIT_MB = 25


def stock_options() -> dict[str, str]:
    """Return the options of Debian's file, without those that depend on the machine."""
    if not CONF.is_file() or "clamav-daemon postinst" not in (text := CONF.read_text(encoding="utf-8")):
        missing("the clamd.conf of Debian's package", apt="clamav-daemon")
    lines = (line.strip() for line in text.splitlines())
    options = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    assert set(options) >= PLACES
    assert "AlertExceedsMax" not in options
    assert options["MaxFileSize"] == options["StreamMaxLength"] == f"{LIMIT_MB}M"
    return {name: value for name, value in options.items() if name not in PLACES}


@pytest.fixture(scope="module")
def stock_clamd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clamd]:
    # Nothing in the file listens on TCP; the helper that starts clamd does, on loopback.
    places = {"TCPAddr": "127.0.0.1", "Foreground": "yes"}
    with running_clamd(tmp_path_factory.mktemp("stock"), places, base=stock_options()) as clamd:
        yield clamd


@pytest.fixture(scope="module")
def stock_service(stock_clamd: Clamd, deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local"), SCANNER="clamd", CLAMD=stock_clamd.address) as service:
        # How much clamd scans is found out beside the first uploads; until then its OK is believed for less.
        until(lambda: scanner_limit(service), lambda limit: limit == str(LIMIT_MB * 2**20))
        yield service


@pytest.fixture(scope="module")
def stock_client(stock_service: Service) -> ApiClient:
    return stock_service.new_client()


def scanner_limit(service: Service) -> str:
    engines = service.ready().json()["engines"]
    return str(next(engine for engine in engines if engine["kind"] == "scanner")["limits"]["scanned_bytes"])


def scanning_context(client: ApiClient) -> str:
    """Create a context that accepts any file in which the scanner finds nothing."""
    return client.create_context(reject_corrupt_files=False, reject_blank_files=False, max_file_size_mb=LIMIT_MB)


@pytest.mark.skipif(not CORPUS.exists(), reason="../shared/corpus is absent")
@pytest.mark.timeout(1800)
def test_every_good_file_below_25_mb_is_accepted(stock_client: ApiClient) -> None:
    rows = [json.loads(line) for line in (CORPUS / "manifest.jsonl").read_text().splitlines()]
    good = [row for row in rows if row["label"] in {"valid", "not_blank", "password_protected"}]
    if not LONG_RUN:  # one of each format and label
        good = list({(row["format"], row["label"]): row for row in good}.values())
    paths = [path for row in good if (path := CORPUS / row["file"]).stat().st_size < LIMIT_MB * 2**20]
    context = scanning_context(stock_client)
    with ThreadPoolExecutor(4) as threads:
        responses = threads.map(lambda path: stock_client.upload(path.name, path.read_bytes(), context=context), paths)
        sent = dict(zip(paths, responses, strict=True))
    refused = {path.name: response.text for path, response in sent.items() if response.status_code != 201}
    print(f"{len(paths)} good files, {len(refused)} refused")  # noqa: T201  (a figure of docs/scanner.md)
    assert refused == {}


MISSED = {name: ("file.bin", wrap) for name, wrap in MISSED_BY_CLAMD.items()}


@pytest.mark.parametrize("name", [*REQUIRED_CONTAINERS, *MISSED])
def test_virus_is_rejected_in_every_wrapping(stock_client: ApiClient, name: str) -> None:
    filename, wrap = {**MISSED, **REQUIRED_CONTAINERS}[name]
    response = stock_client.upload(filename, wrap(EICAR), context=scanning_context(stock_client))
    assert_rejected(response, "virus_detected")


def zip_of(*members: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, member in enumerate(members):
            archive.writestr(f"{number}.txt", member)
    return target.getvalue()


def test_a_file_at_the_limit_is_scanned_and_one_beyond_it_is_incomplete(stock_client: ApiClient) -> None:
    # No new context may take more than clamd scans; an older one may.
    own = {"reject_corrupt_files": False, "reject_blank_files": False, "scan_for_viruses": False}
    context = stock_client.create_context(max_file_size_mb=100, **own)
    stock_client.execute_sql("update contexts set scan_for_viruses = true where context_key = :key", key=context)
    data(stock_client.upload("a.bin", bytes(LIMIT_MB * 2**20 - 1), context=context), 201)
    assert_rejected(stock_client.upload("b.bin", bytes(LIMIT_MB * 2**20 + 2**20), context=context), "scan_incomplete")


def test_an_archive_with_a_part_beyond_the_limit_is_incomplete(stock_client: ApiClient) -> None:
    context = scanning_context(stock_client)
    line = b"a line of text that is repeated\n"
    within, beyond = line * (2**20 // len(line)), line * ((LIMIT_MB + 3) * 2**20 // len(line))
    data(stock_client.upload("within.zip", zip_of(within), context=context), 201)
    assert_rejected(stock_client.upload("beyond.zip", zip_of(within, beyond), context=context), "scan_incomplete")


def test_an_archive_that_unpacks_to_more_than_clamd_scans_is_incomplete(stock_client: ApiClient) -> None:
    line = b"a line of text that is repeated\n"
    parts = [line * (20 * 2**20 // len(line)) for _ in range(6)]  # 120 MB, of which clamd scans 100
    response = stock_client.upload("a.zip", zip_of(*parts), context=scanning_context(stock_client))
    assert_rejected(response, "scan_incomplete")


def test_uploads_get_503_while_clamd_is_dead(deployments: Deployments, tmp_path: Path) -> None:
    places = {"TCPAddr": "127.0.0.1", "Foreground": "yes"}
    with (
        running_clamd(tmp_path, places, base=stock_options()) as clamd,
        running_service(deployments.fresh("sqlite-local"), SCANNER="clamd", CLAMD=clamd.address) as service,
    ):
        client = service.new_client()
        context = scanning_context(client)
        data(client.upload("a.txt", b"Hello", context=context), 201)
        os.kill(clamd.pid, signal.SIGKILL)
        refused = client.upload("b.txt", b"Hello again", context=context)
        assert refused.status_code == 503, refused.text
        assert int(refused.headers["retry-after"]) > 0
