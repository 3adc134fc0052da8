"""The largest files: taken whole, in little memory; and a byte more refused. Smaller sizes are in `test_upload_rules`."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.api import forms
from tests.api.answers import data, page, rejected
from tests.api.forms import field, file
from tests.api.samples import noise
from tests.gate import Gate

MB = 1_048_576
BLOCK = noise(MB)
RULES = {"max_file_size_mb": 500, "scan_for_viruses": False}
GROWTH_BYTES = 64 * MB
_KB = 1024


class PeakMemory:
    """Watches the private memory (RssAnon) of a process and all its descendants; the spool's pages are not in it."""

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
    return sum(_anonymous_bytes(pid) for pid in _tree(root))


def _anonymous_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
        return 0
    return sum(int(line.split()[1]) * _KB for line in lines if line.startswith("RssAnon"))


def _tree(root: int) -> Iterator[int]:
    yield root
    for thread in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for child in children:
            yield from _tree(int(child))


def _upload(gate: Gate, context: str, size: int, *, declare: bool) -> httpx.Response:
    start = forms.encode([field("context", context)])[: -len(forms.tail())] + forms.head(file("large.zzz", b""))
    end = b"\r\n" + forms.tail()
    headers = {"Content-Type": forms.content_type()}
    if declare:
        headers["Content-Length"] = str(len(start) + size + len(end))

    def body() -> Iterator[bytes]:
        yield start
        yield from _content(size)
        yield end

    return gate.ask("POST", "/files/upload", content=body(), headers=headers)


def _content(size: int) -> Iterator[bytes]:
    for _ in range(size // MB):
        yield BLOCK
    yield BLOCK[: size % MB]


def _sum(chunks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def test_the_largest_file_is_taken_whole_in_little_memory(gate: Gate) -> None:
    context = gate.context(**RULES)
    gate.store("warm.zzz", noise(2 * MB), context=context)
    with PeakMemory(gate.service.process.pid) as memory:
        stored = data(_upload(gate, context, 500 * MB, declare=True), 201)
        link = data(gate.get(f"/files/{stored['file_id']}"))["download_url"]
        with httpx.stream("GET", link, timeout=60) as answer:
            downloaded = _sum(answer.iter_bytes(MB))
    assert stored["size_bytes"] == 500 * MB
    assert downloaded == _sum(_content(500 * MB))
    assert memory.growth < GROWTH_BYTES, f"{memory.growth / MB:.0f} MB"


@pytest.mark.parametrize("declare", [True, False], ids=["declared", "chunked"])
def test_a_byte_more_than_the_largest_file_is_rejected(gate: Gate, declare: bool) -> None:  # noqa: FBT001 - a parameter of the table
    context = gate.context(**RULES)
    rejected(_upload(gate, context, 500 * MB + 1, declare=declare), "file_too_large")
    assert page(gate.get("/files"))[0] == []
    assert gate.objects() == set()
    assert gate.used(context) == 0


def test_the_spool_is_empty_again_after_every_outcome(gate: Gate) -> None:
    context = gate.context(max_file_size_mb=20)
    gate.store("a.zzz", noise(5 * MB), context=context)
    rejected(gate.upload("a.zzz", noise(21 * MB), context=context), "file_too_large")
    spool = gate.service.place.data_dir / "spool"
    assert [path for path in spool.rglob("*") if path.is_file()] == []
    held = [link.readlink() for link in Path(f"/proc/{gate.service.process.pid}/fd").iterdir() if link.is_symlink()]
    assert [target for target in held if str(spool) in str(target) and "deleted" in str(target)] == []
