"""After `preload` a check imports nothing more, because a locked child process could not import it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run_length import LONG_RUN

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"

SCRIPT = """
import io, json, sys, tempfile
from pathlib import Path
from PIL import Image
from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.registry import FORMATS
preload()
known = set(sys.modules)
late = {}
def check(name, content):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        inspect_file(file.fileno(), filename=name)
    for module in set(sys.modules) - known:
        late[module] = name
        known.add(module)
for format_ in FORMATS:
    name, sample = f"a.{min(format_.extensions)}", format_.sample()
    for content in (sample, sample[: len(sample) // 2], sample[:-1], sample + b"trailing", b"\\0" + sample):
        check(name, content)
for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "I;16", "I", "F"):
    picture = io.BytesIO()
    Image.new(mode, (80, 60)).save(picture, "TIFF")
    check("a.tif", picture.getvalue())
for path in sys.argv[1:]:
    check(Path(path).name, Path(path).read_bytes())
print(json.dumps(late))
"""


def late_imports(paths: list[str]) -> dict[str, str]:
    run = subprocess.run([sys.executable, "-c", SCRIPT, *paths], capture_output=True, text=True, check=True)
    imports: dict[str, str] = json.loads(run.stdout)
    return imports


def test_checking_samples_imports_no_further_module() -> None:
    assert late_imports([]) == {}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is absent")
def test_checking_the_corpus_imports_no_further_module() -> None:
    paths = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.stat().st_size < 2_000_000)
    one_of_each = {(path.parent, path.suffix): str(path) for path in paths}
    assert late_imports([str(path) for path in paths[::3]] if LONG_RUN else [*one_of_each.values()]) == {}
