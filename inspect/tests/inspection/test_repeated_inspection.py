"""After `preload`, checks open and import nothing, since a locked child process could not; a repeated one reports the same."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.inspection.formats.examining import CORPUS, smallest_files
from tests.repository import IMPORT_PATH
from tests.run_length import amount

SCRIPT = """
import io, json, os, sys
from dataclasses import replace
from pathlib import Path
import numpy
from PIL import Image
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.registry import FORMATS
def picture(image, plugin):
    file = io.BytesIO()
    image.save(file, plugin)
    return file.getvalue()
expected, files = {}, []
for format_ in FORMATS:
    sample = format_.sample()
    for extension in format_.extensions:
        expected[len(files)] = ("ok", format_.name)
        files += [("a." + extension, sample), ("a." + extension, bytes(range(256)) * 99)]
    for content in (
        sample[: len(sample) // 2], sample[:-1], sample[:-7], sample + b"trailing", b"\\0" + sample,
        sample[:20] + bytes(9) + sample[29:],
    ):
        files.append(("a." + min(format_.extensions), content))
expected[len(files)] = ("ok", "png")
files.append(("a.png", picture(Image.fromarray(numpy.arange(640 * 480).reshape(480, 640).astype("u1") ** 2 % 7 * 2 + 200), "PNG")))
for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"):
    files.append(("a.tif", picture(Image.new(mode, (80, 60)), "TIFF")))
files += [(path, Path(path).read_bytes()) for path in sys.argv[1:]]
preload()
known, late, refused = set(sys.modules), {}, []
def deny(event, arguments):
    if event in {"open", "import", "os.listdir", "os.scandir", "subprocess.Popen", "socket.connect", "ctypes.dlopen"}:
        refused.append(f"{event} {arguments}")
        raise PermissionError(refused[-1])
def report_of(number):
    name, content = files[number]
    descriptor = os.memfd_create("checked")
    os.write(descriptor, content)
    report = replace(inspect_file(descriptor, filename=name), ms=0.0)
    os.close(descriptor)
    late.update(dict.fromkeys(set(sys.modules) - known, name))
    return report
sys.addaudithook(deny)
first = [report_of(number) for number in range(len(files))]
second = [report_of(number) for number in reversed(range(len(files)))][::-1]
wrong = [f"{files[at]}: {first[at]}" for at, report in expected.items() if (first[at].outcome, first[at].format) != report]
print(json.dumps({
    "late": late, "refused": refused, "wrong": wrong,
    "unreadable": [f"{name} {one.detail}" for (name, content), one in zip(files, first) if "reader failed" in one.detail],
    "differing": [name for (name, _), one, two in zip(files, first, second) if one != two],
    "polyglots": [name for (name, _), one in zip(files, first) if "/" in name and one.finding == "polyglot_file"],
}))
"""
EACH = amount("TWICE", short=1, full=1_000_000)
Found = Mapping[str, object]


@pytest.fixture(scope="module")
def found() -> Found:
    command = [sys.executable, "-c", SCRIPT, *(str(path) for path, _ in smallest_files(EACH))]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": IMPORT_PATH}
    )
    assert run.returncode == 0, run.stderr
    found: Found = json.loads(run.stdout)
    return found


@pytest.mark.timeout(900)
def test_no_check_opens_or_imports_anything_after_preload(found: Found) -> None:
    assert (found["late"], found["refused"], found["wrong"], found["unreadable"]) == ({}, [], [], [])


def test_two_runs_over_samples_and_corpus_yield_equal_reports(found: Found) -> None:
    assert found["differing"] == []


def test_good_corpus_files_are_no_polyglots(found: Found) -> None:
    good = [str(CORPUS / label) for label in ("valid", "not_blank")]
    names = found["polyglots"]
    assert isinstance(names, list)
    assert [name for name in names if name.startswith(tuple(good))] == []
