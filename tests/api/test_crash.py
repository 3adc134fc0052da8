"""What is left when the server dies in the middle of uploads (kill -9), and what the worker makes of it after a restart."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api import forms, raw
from tests.api.answers import data, page
from tests.api.places import Places
from tests.api.samples import noise
from tests.gate import Gate, Place, Service, running_service, unguarded_service

LEASE = {"UPLOAD_LEASE_SECONDS": "1"}
SIZE = 400_000


@pytest.fixture
def place(places: Places, setup_name: str) -> Place:
    return places.fresh(setup_name)


def _until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)  # the worker is another process: all one can do is look again
    return holds()


def _of(service: Service, gate: Gate) -> Gate:
    """Answer the same tenant's gate at the restarted server."""
    return Gate(service, gate.tenant_id, gate.authorization)


def _spooled(place: Place) -> list[Path]:
    return [path for path in (place.data_dir / "spool").rglob("*") if path.is_file()]


def test_a_server_killed_within_a_body_leaves_nothing(place: Place) -> None:
    with unguarded_service(place, **LEASE) as service:
        gate = service.new_gate().with_store()
        context = gate.context()
        with raw.connection(gate) as plug:
            length = f"Content-Length: {10 * SIZE}"
            kind = f"Content-Type: {forms.content_type()}"
            start = forms.head(forms.file("a.zzz", b"")) + noise(5 * SIZE)
            plug.sendall(raw.request_head(gate, kind, length) + start)
            service.process.kill()
            service.process.wait(10)
    with running_service(place, **LEASE) as service:
        gate = _of(service, gate)
        assert page(gate.get("/files"))[0] == []
        assert (gate.used(context), gate.objects(), _spooled(place)) == (0, set(), [])


@pytest.mark.asvs("2.3.3")
def test_a_server_killed_between_uploads_keeps_what_it_acknowledged_and_nothing_else(place: Place) -> None:
    acknowledged: list[str] = []
    with unguarded_service(place, **LEASE) as service:
        gate = service.new_gate().with_store()
        context = gate.context()
        gate.store("warm.zzz", noise(SIZE), context=context)
        enough = threading.Event()

        def upload_on() -> None:
            try:
                while True:
                    answer = gate.upload("a.zzz", noise(SIZE), context=context)
                    acknowledged.append(data(answer, 201)["file_id"])
                    if len(acknowledged) >= 20:
                        enough.set()
            except httpx.TransportError:
                return  # the server was killed: what this test is about

        threads = [threading.Thread(target=upload_on) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        service.process.kill()
        for thread in threads:
            thread.join()
    with running_service(place, **LEASE) as service:
        _holds_exactly(_of(service, gate), context, acknowledged)


def _holds_exactly(gate: Gate, context: str, acknowledged: list[str]) -> None:
    """Every acknowledged file is whole; besides them only files that were stored and whose answer was cut off are there."""
    files = _all_files(gate)
    assert set(acknowledged) <= {item["file_id"] for item in files}
    for file_id in acknowledged:
        link = data(gate.get(f"/files/{file_id}"))["download_url"]
        assert httpx.get(link, timeout=30).content == noise(SIZE)
    assert _until(lambda: len(gate.objects()) == len(files))
    assert _until(lambda: gate.used(context) == sum(item["size_bytes"] for item in files))
    assert _spooled(gate.service.place) == []


def _all_files(gate: Gate) -> list[dict[str, Any]]:
    items, pagination = page(gate.get("/files", page_size=100))
    for number in range(2, pagination["total_pages"] + 1):
        items += page(gate.get("/files", page=number, page_size=100))[0]
    return items
