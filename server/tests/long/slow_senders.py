"""One upload token sends files that are slow to check while an API key of the same tenant uploads small ones."""

import io
import statistics
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import pytest

from tests.api import forms
from tests.api.responses import data
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers.redis import RedisServer
from tests.service import ApiClient, running_service

_SENDERS = 8  # uploads of one upload token that are in progress at once
_UPLOADS = 100
_MOST_TIMES = 5
"""Small uploads beside the slow ones may take this many times as long as alone: the processor is shared."""
_ODT = "application/vnd.oasis.opendocument.text"
_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns"


@pytest.mark.timeout(900)
def test_slow_files_of_an_upload_token_hardly_delay_other_uploads_of_its_tenant(
    deployments: Deployments, redis_server: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment = deployments.fresh("postgres-s3", clamd="large_clamd_address")
    settings = {**deployment.settings, "LIMITER": "redis", "REDIS_URL": redis_server.url}
    with running_service(replace(deployment, settings=settings)) as service:
        client = service.new_client().with_store()
        context = client.create_context(allowed_extensions=["odt", "txt"])
        _upload_small_files(client, context)
        alone = _upload_small_files(client, context)
        with _sending_slow_files(client, context) as slow:
            assert until(lambda: bool(slow), 60)
            beside = _upload_small_files(client, context)
    with capsys.disabled():
        print(f"\nsmall files alone: {_shown(alone)}; beside slow files: {_shown(beside)}")  # noqa: T201
        print(f"slow files: {_shown(slow)}")  # noqa: T201
    assert statistics.median(beside) < _MOST_TIMES * statistics.median(alone)
    assert max(beside) < statistics.median(slow) / 2


def _shown(seconds: Sequence[float]) -> str:
    return f"median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s of {len(seconds)}"


def _upload_small_files(client: ApiClient, context: str) -> list[float]:
    """Upload small files that were never seen, one after the other, and return the seconds of each."""
    seconds = []
    for number in range(_UPLOADS):
        began = time.monotonic()
        response = client.upload("note.txt", f"Note {number}, written at {began}.".encode(), context=context)
        assert response.status_code == 201, response.text
        seconds.append(time.monotonic() - began)
    return seconds


@contextmanager
def _sending_slow_files(client: ApiClient, context: str) -> Iterator[list[float]]:
    """Send slow files with one token, always `_SENDERS` at once, until the block ends; yield the seconds of each."""
    token = data(client.post("/upload-tokens", {"context": context, "max_files": 100}), 201)["token"]
    stranger = client.with_credential(token)
    stop, seconds = threading.Event(), list[float]()

    def send(first: int) -> None:
        number = first
        while not stop.is_set():
            began = time.monotonic()
            response = stranger.upload_parts([forms.file("slow.odt", _slow_document(number))])
            assert response.status_code in {201, 400}, response.text
            seconds.append(time.monotonic() - began)
            number += _SENDERS

    with ThreadPoolExecutor(_SENDERS) as pool:
        senders = [pool.submit(send, first) for first in range(_SENDERS)]
        try:
            yield seconds
        finally:
            stop.set()
    for sender in senders:
        sender.result()


@cache
def _packed_text() -> bytes:
    return b"<text:p>a<text:span>b</text:span></text:p>" * 1_600_000


def _slow_document(number: int) -> bytes:
    """Return an ODT of 200 KB with more than a million paragraphs."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), _ODT)
        entries = "".join(
            f'<manifest:file-entry manifest:full-path="{path}" manifest:media-type="{content_type}"/>'
            for path, content_type in (("/", _ODT), ("content.xml", "text/xml"))
        )
        archive.writestr(
            "META-INF/manifest.xml",
            f'<manifest:manifest xmlns:manifest="{_NAMESPACE}:manifest:1.0">{entries}</manifest:manifest>',
        )
        head = (
            f'<office:document-content xmlns:office="{_NAMESPACE}:office:1.0" xmlns:text="{_NAMESPACE}:text:1.0"'
            f' office:version="1.2"><office:body><office:text><text:p>{number}</text:p>'
        )
        tail = "</office:text></office:body></office:document-content>"
        archive.writestr("content.xml", head.encode() + _packed_text() + tail.encode())
    return written.getvalue()
