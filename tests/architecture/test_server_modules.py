"""The server parses nothing: no library that reads strangers' bytes is loaded in its process, before or after it has judged some."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.samples import sound
from tests.gate import Service

# Without zstandard, which httpx loads by itself for the answers of servers; that we use it in the checks alone is an import contract.
PARSERS = {"PIL", "av", "lxml", "lz4", "magic", "numpy", "pikepdf", "pypdfium2", "pypdfium2_raw", "yara_x"}
OURS = {"sluice.formats.check", "sluice.formats.registry", "sluice.threats.scan", "sluice.engines.sandbox.jobs"}

LOADED = """
import sys
import sluice.asgi, sluice.cli.serving, sluice.cli.working, sluice.cli.checking
print(*sys.modules, sep="\\n")
"""


def test_the_server_loads_no_parser_and_no_format_when_it_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "sluice.wiring" in loaded
    assert {name for name in loaded if name.partition(".")[0] in PARSERS} == set()
    assert {name for name in loaded if name in OURS or name.startswith("sluice.formats.kinds")} == set()


@pytest.mark.asvs("1.4.1")
def test_the_server_maps_no_parser_after_it_has_judged_files(sqlite_local: Service) -> None:
    gate = sqlite_local.new_gate()
    context = gate.context()
    for extension, content in sound().items():
        gate.store(f"sample.{extension}", content, context=context)
    mapped = Path(f"/proc/{sqlite_local.process.pid}/maps").read_text()
    libraries = {line.split("/site-packages/")[1].partition("/")[0] for line in mapped.splitlines() if "/site-packages/" in line}
    assert "uvloop" in libraries
    assert libraries & (PARSERS | {"pylibmagic", "pillow.libs", "pikepdf.libs", "numpy.libs"}) == set()
