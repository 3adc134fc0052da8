"""Large files: accepted in little memory; one byte more than the context allows is refused.

Each setup has a server of its own, whose memory and spool no other test uses.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.api import forms
from tests.api.forms import field, file
from tests.api.responses import assert_rejected, data, page
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.rows import each_row
from tests.run_length import LONG_RUN, amount
from tests.scanning.waiting import until
from tests.service import ApiClient, Service, running_service

pytestmark = pytest.mark.engine

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


@each_row("declare", [True, False], ids=["declared", "chunked"])
def test_file_one_byte_over_the_largest_size_is_rejected(client: ApiClient, *, declare: bool) -> None:
    largest_mb = LARGEST_MB if LONG_RUN else 8
    context = client.create_context(**RULES | {"max_file_size_mb": largest_mb})
    assert_rejected(_upload(client, context, largest_mb * MB + 1, declare=declare), "file_too_large")
    assert page(client.get("/files"))[0] == []
    assert client.object_keys() == set()
    assert client.used_bytes(context) == 0


def test_spool_is_empty_after_every_outcome(client: ApiClient) -> None:
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
