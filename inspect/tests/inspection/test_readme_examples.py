"""The examples of `inspect/README.md` that judge strangers' files, each run as it is printed."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice_inspect.registry import FORMATS
from tests.inspection.test_package import BLOCKS

PNG = next(each for each in FORMATS if each.name == "png").sample()
PAGE = b"<html><body>502 Bad Gateway</body></html>"
Start = Callable[[str], dict[str, Any]]


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Start:
    """Run the example that contains `word`, and close its inspector after the test."""

    def run(word: str) -> dict[str, Any]:
        (code,) = (block for block in BLOCKS if word in block)
        names: dict[str, Any] = {}
        exec(code, names)
        request.addfinalizer(names["inspector"].close)
        return names

    return run


def test_plain_example_prints_the_reason(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pdf = next(each for each in FORMATS if each.name == "pdf").sample()
    (tmp_path / "invoice.pdf").write_bytes(pdf[: len(pdf) // 2])
    monkeypatch.chdir(tmp_path)
    start('inspect("invoice.pdf")')
    assert capsys.readouterr().out.startswith("corrupt the file is cut: the marks at the end of a PDF are missing")


def test_django_example_refuses_a_file_with_its_reason(start: Start) -> None:
    from django.conf import settings  # noqa: PLC0415  (a second that collection need not take)
    from django.core.files.uploadedfile import SimpleUploadedFile  # noqa: PLC0415

    if not settings.configured:
        settings.configure(USE_I18N=False)
    names = start("from django")
    good = names["ClaimForm"]({}, {"document": SimpleUploadedFile("photo.png", PNG)})
    assert good.is_valid(), good.errors
    bad = names["ClaimForm"]({}, {"document": SimpleUploadedFile("photo.png", PAGE)})
    (error,) = bad.errors.as_data()["document"]
    assert (error.code, "web page" in error.message) == ("type_mismatch", True)


def test_fastapi_example_responds_with_the_reason(start: Start) -> None:
    from fastapi.testclient import TestClient  # noqa: PLC0415

    client = TestClient(start("from fastapi")["app"])
    good = client.post("/documents", files={"file": ("photo.png", io.BytesIO(PNG))})
    assert (good.status_code, good.json()) == (200, {"content_type": "image/png"})
    bad = client.post("/documents", files={"file": ("photo.png", io.BytesIO(PAGE))})
    assert (bad.status_code, bad.json()["detail"]["reason"]) == (422, "type_mismatch")


def test_celery_example_returns_the_reason(start: Start, tmp_path: Path) -> None:
    names = start("from celery")
    names["app"].conf.task_always_eager = True
    (tmp_path / "photo.png").write_bytes(PAGE)
    assert names["check"].delay(str(tmp_path / "photo.png")).get()["reason"] == "type_mismatch"
