"""Large files: accepted in little memory; one byte more than the context allows is refused; how much is spooled together.

Each setup has a server of its own, whose memory and spool no other test uses. A file may come before its context.
"""

import hashlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.api import forms, raw_http
from tests.api.forms import field, file
from tests.api.responses import assert_rejected, data, page
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.observe import metrics_page
from tests.rows import each_row
from tests.run_length import LONG_RUN, amount
from tests.scanning.waiting import until
from tests.service import ApiClient, Service, running_service

MB = 1_048_576
BLOCK = noise(MB)
LARGEST_MB = amount("LARGEST_MB", short=96, full=500)
"""A third more than the memory that the server may take for it, or as much as a context can allow."""
RULES = {"max_file_size_mb": LARGEST_MB, "scan_for_viruses": False}
GROWTH_BYTES = 64 * MB
_KB = 1024


class PeakMemory:
    """Watch the private memory (RssAnon) of a process and its descendants; pages of the spool are not included."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.before = _private_bytes(pid)
        self.peak = self.before

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.peak - self.before

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.peak = max(self.peak, _private_bytes(self._pid))


def _private_bytes(root: int) -> int:
    return sum(_anonymous_bytes(pid) for pid in _process_tree(root))


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it ended in the meantime
        return 0
    return sum(int(line.split()[1]) * _KB for line in lines if line.startswith("RssAnon"))


def _process_tree(root: int) -> Iterator[int]:
    yield root
    for thread in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from _process_tree(int(child))


@pytest.fixture(scope="module")
def service(deployments: Deployments, setup_name: str) -> Iterator[Service]:
    with running_service(deployments.fresh(setup_name)) as service:
        yield service


def _upload(client: ApiClient, context: str, size: int, *, declare: bool) -> httpx.Response:
    start = forms.encode([field("context", context)])[: -len(forms.tail())] + forms.head(file("large.zzz", b""))
    end = b"\r\n" + forms.tail()
    headers = {"Content-Type": forms.content_type()}
    if declare:
        headers["Content-Length"] = str(len(start) + size + len(end))

    def body() -> Iterator[bytes]:
        yield start
        yield from _content(size)
        yield end

    return client.request("POST", "/files/upload", content=body(), headers=headers)


def _content(size: int) -> Iterator[bytes]:
    for _ in range(size // MB):
        yield BLOCK
    yield BLOCK[: size % MB]


def _sha256(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


@pytest.mark.engine
def test_largest_file_is_stored_with_little_memory(client: ApiClient) -> None:
    context = client.create_context(**RULES)
    client.store("warm.zzz", noise(2 * MB), context=context)
    with PeakMemory(client.service.process.pid) as memory:
        stored = data(_upload(client, context, LARGEST_MB * MB, declare=True), 201)
        link = data(client.get(f"/files/{stored['file_id']}"))["download_url"]
        with httpx.stream("GET", link, timeout=60) as response:
            downloaded = _sha256(response.iter_bytes(MB))
    assert stored["size_bytes"] == LARGEST_MB * MB
    assert downloaded == _sha256(_content(LARGEST_MB * MB))
    assert memory.growth < GROWTH_BYTES, f"{memory.growth / MB:.0f} MB"


@pytest.mark.engine
def test_file_one_byte_over_the_largest_size_is_rejected_and_no_outcome_leaves_a_spooled_file(
    client: ApiClient,
) -> None:
    for declare in [True, False]:
        largest_mb = LARGEST_MB if LONG_RUN else 8
        context = client.create_context(**RULES | {"max_file_size_mb": largest_mb})
        assert_rejected(_upload(client, context, largest_mb * MB + 1, declare=declare), "file_too_large")
        assert page(client.get("/files"))[0] == []
        assert client.object_keys() == set()
        assert client.used_bytes(context) == 0
    context = client.create_context(max_file_size_mb=6)
    client.store("a.zzz", noise(5 * MB), context=context)
    assert_rejected(client.upload("a.zzz", noise(7 * MB), context=context), "file_too_large")
    spool = client.service.deployment.data_dir / "spool"
    assert [path for path in spool.rglob("*") if path.is_file()] == []
    # A rejection is answered while a thread may still write the last batch; the file is closed when that thread ends.
    assert until(lambda: _open_files_in(client.service.process.pid, spool) == [])


def _open_files_in(pid: int, folder: Path) -> list[str]:
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            targets.append(str(link.readlink()))
    return [target for target in targets if target.startswith(f"{folder}/")]


ROOMLESS = 4 * MB
TENANT_SHARE = 512 * MB
ANNOUNCED = 400 * MB
SENT = 8 * MB
FORM = f"Content-Type: {forms.content_type()}"


@pytest.fixture(scope="module")
def small_spool_service(deployments: Deployments) -> Iterator[Service]:
    """A server whose tenants have room for one file of 400 MB at a time, and which has room for five."""
    with running_service(deployments.fresh("sqlite-local"), SPOOL_MB="2048", UPLOAD_WAIT_SECONDS="3") as service:
        yield service


def begin_large_file(client: ApiClient, stack: ExitStack, length: int = ANNOUNCED) -> socket.socket:
    sock = stack.enter_context(raw_http.connection(client))
    sock.sendall(raw_http.request_head(client, FORM, f"Content-Length: {length}"))
    return sock


def send_first_bytes(sock: socket.socket) -> None:
    """Send the first eight megabytes, or of them what the server takes until it takes none for a second."""
    left = memoryview(forms.head(file("large.zzz", b"")) + noise(SENT))
    sock.settimeout(1)
    with suppress(TimeoutError):
        while left:
            left = left[sock.send(left) :]
    sock.settimeout(20)


def spooled_bytes(service: Service) -> float:
    page = metrics_page.read_metrics(service.url)
    return page("sluice_spool_bytes", where="memory") + page("sluice_spool_bytes", where="disk")


@pytest.mark.asvs("5.2.1", "15.2.2")
def test_files_before_their_context_are_bounded_for_each_tenant_and_together(small_spool_service: Service) -> None:
    client = small_spool_service.new_client()
    with ExitStack() as stack:
        socks = [begin_large_file(client, stack) for _ in range(6)]
        for sock in socks:
            send_first_bytes(sock)
        assert spooled_bytes(small_spool_service) <= SENT + 5 * ROOMLESS
        refused = [raw_http.read_response(sock) for sock in socks[1:]]
    problem = "Too many bytes of uploads are under way; nothing was stored, try again later"
    assert {(response.status, response.json_body["errors"][0]) for response in refused} == {(503, problem)}
    assert {response.headers["retry-after"] for response in refused} == {"5"}
    metrics_page.until(lambda: spooled_bytes(small_spool_service), lambda spooled: spooled == 0)
    tenants = [small_spool_service.new_client() for _ in range(6)]
    with ExitStack() as stack:
        socks = [begin_large_file(client, stack) for client in tenants]
        for sock in socks:
            send_first_bytes(sock)
        assert raw_http.read_response(socks[5]).status == 503
        assert spooled_bytes(small_spool_service) <= 5 * SENT + ROOMLESS


def test_others_upload_large_and_a_tenant_small_files_when_it_has_taken_its_share(small_spool_service: Service) -> None:
    greedy, other = small_spool_service.new_client(), small_spool_service.new_client()
    large = other.create_context(max_file_size_mb=20, scan_for_viruses=False)
    small = greedy.create_context(scan_for_viruses=False)
    with ExitStack() as stack:
        for sock in [begin_large_file(greedy, stack) for _ in range(2)]:
            send_first_bytes(sock)
        greedy.store("small.zzz", noise(3 * MB), context=small)
        send_first_bytes(begin_large_file(greedy, stack))
        other.store("large.zzz", noise(10 * MB), context=large)


def test_upload_that_waits_for_room_is_stored_once_there_is_some(small_spool_service: Service) -> None:
    client = small_spool_service.new_client()
    context = client.create_context(max_file_size_mb=20, scan_for_viruses=False)
    with ThreadPoolExecutor(1) as thread, ExitStack() as stack:
        first = begin_large_file(client, stack, TENANT_SHARE - 12 * MB)
        send_first_bytes(first)
        second = thread.submit(client.upload, "second.zzz", noise(15 * MB), context=context)
        metrics_page.until(
            lambda: metrics_page.read_metrics(client.service.url)("sluice_uploads_waiting_for_spool"),
            lambda count: count == 1,
        )
        assert not second.done()
        first.close()
        assert data(second.result(), 201)["size_bytes"] == 15 * MB


@each_row("size", [5 * MB, 40 * MB])
def test_large_file_may_come_before_its_context(small_spool_service: Service, size: int) -> None:
    client = small_spool_service.new_client()
    context = client.create_context(max_file_size_mb=50, scan_for_viruses=False)
    parts = [file("large.zzz", noise(size)), field("context", context)]
    assert data(client.upload_parts(parts), 201)["size_bytes"] == size
