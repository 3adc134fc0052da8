"""Disks that are full, and clients that go away: told in the service's own words, with nothing stored, charged or left behind."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.api import forms, raw
from tests.api.answers import page
from tests.api.places import Places
from tests.api.samples import noise
from tests.gate import Gate, running_service
from tests.recovery.auditing import audited

MB = 1_048_576


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of that size in `folder` until the block ends; skips where nobody may mount one."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700", "none", folder], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk takes root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def _refused(answer: httpx.Response, *statuses: int) -> None:
    assert answer.status_code in statuses, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.json()["status"] == "ERROR"


def _nothing_more(gate: Gate, context: str, files: int, used: int) -> None:
    assert page(gate.get("/files"))[1]["total"] == files
    assert gate.used(context) == used


def test_a_full_store_is_told_and_takes_files_again_when_there_is_room(places: Places, tmp_path: Path) -> None:
    embedded = places.fresh("sqlite-local")
    place = replace(embedded, settings={**embedded.settings, "STORAGE_DIR": str(tmp_path / "disk")})
    with small_disk(tmp_path / "disk", 3), running_service(place) as service:
        gate = service.new_gate()
        context = gate.context(upload_rate_limit={"max_uploads": 3, "window_seconds": 3600})
        gate.store("a.zzz", noise(2 * MB), context=context)
        for _ in range(4):  # and no attempt is charged to the rate limit
            _refused(gate.upload("b.zzz", noise(2 * MB), context=context), 507)
        _nothing_more(gate, context, 1, 2 * MB)
        gate.store("c.zzz", noise(MB // 4), context=context)
        assert audited(service).findings == []


def test_a_full_spool_is_told(places: Places, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 3) as disk, running_service(places.fresh("sqlite-local"), SPOOL_DIR=str(disk)) as service:
        gate = service.new_gate()
        context = gate.context()
        _refused(gate.upload("a.zzz", noise(6 * MB), context=context), 507)
        _nothing_more(gate, context, 0, 0)
        gate.store("a.zzz", noise(2 * MB), context=context)


def test_a_full_disk_under_the_database_is_told(places: Places, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    place = replace(places.fresh("sqlite-local"), database_url=f"sqlite:///{disk}/sluice.db")
    with small_disk(disk, 32), running_service(place) as service:
        gate = service.new_gate()
        context = gate.context()
        gate.store("a.zzz", noise(1000), context=context)
        filler = disk / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4096"], check=False, capture_output=True)
        answers = [gate.upload("b.zzz", noise(1000, seed=number), context=context) for number in range(300)]
        refused = [answer for answer in answers if answer.status_code != 201]
        assert refused
        for answer in refused:
            _refused(answer, 503, 507)
        filler.unlink()
        gate.store("c.zzz", noise(1000), context=context)
        assert page(gate.get("/files"))[1]["total"] >= len(answers) - len(refused) + 2
        assert audited(service).findings == []


@pytest.mark.parametrize("tenths", range(10))
def test_a_client_that_goes_away_within_its_body_leaves_nothing(gate: Gate, tenths: int) -> None:
    context = gate.context()
    body = forms.encode([forms.field("context", context), forms.file("a.zzz", noise(3 * MB))])
    with raw.connection(gate) as plug:
        head = raw.request_head(gate, f"Content-Type: {forms.content_type()}", f"Content-Length: {len(body)}")
        plug.sendall(head + body[: len(body) * tenths // 10])
        plug.shutdown(socket.SHUT_RDWR)
    _nothing_more(gate, context, 0, 0)
    assert gate.objects() == set()
    gate.store("a.zzz", noise(1000), context=context)
