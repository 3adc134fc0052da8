"""After `preload` a check loads nothing: a locked child could not, and its rule would silently fall away."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"

LATE = """
import json, sys, tempfile
from pathlib import Path
from sluice.formats.check import check_file, preload
from sluice.formats.registry import KINDS
preload()
known = set(sys.modules)
late = {}
def look(name, content):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        check_file(file.fileno(), filename=name)
    for module in set(sys.modules) - known:
        late[module] = name
        known.add(module)
for kind in KINDS:
    name, sample = f"a.{min(kind.extensions)}", kind.sample()
    for content in (sample, sample[: len(sample) // 2], sample[:-1], sample + b"trailing", b"\\0" + sample):
        look(name, content)
for path in sys.argv[1:]:
    look(Path(path).name, Path(path).read_bytes())
print(json.dumps(late))
"""


def late_imports(paths: list[str]) -> dict[str, str]:
    run = subprocess.run([sys.executable, "-c", LATE, *paths], capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(run.stdout)
    return found


def test_checking_samples_loads_nothing_more() -> None:
    assert late_imports([]) == {}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="../shared/corpus is absent")
def test_checking_the_corpus_loads_nothing_more() -> None:
    every_third = sorted(str(path) for path in CORPUS.rglob("*") if path.is_file() and path.stat().st_size < 2_000_000)[::3]
    assert late_imports(every_third) == {}
