"""What the server process loads: no parser of uploaded files, at import or after uploads, and no Alembic at a first start."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.samples import SOUND_FILES
from tests.service import Service

# Not zstandard: httpx loads it for responses. An import contract keeps Sluice's own use of it in sluice_inspect.
PARSERS = {"PIL", "av", "lxml", "lz4", "magic", "numpy", "pikepdf", "pypdfium2", "pypdfium2_raw", "yara_x"}
PARSING_MODULES = {
    "sluice_inspect.inspection",
    "sluice_inspect.registry",
    "sluice_inspect.threats.scan",
    "sluice_inspect.child.jobs",
}

LOADED = """
import asyncio, sys
import sluice.asgi, sluice.cli, sluice.cli.listening, sluice.wiring.assembly, sluice.wiring.engines
import sluice.uploads.inspection, sluice.uploads.rules, sluice.uploads.values
from sluice.db.database import Database
from sluice.db.migrate import newest, revision, upgrade

async def create():
    database = Database(sys.argv[1])
    await upgrade(database)
    assert await revision(database) == newest()
    await database.aclose()

asyncio.run(create())
print(*sys.modules, sep="\\n")
"""


def test_server_that_creates_its_database_loads_no_parser_no_format_and_no_alembic(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, f"sqlite:///{tmp_path / 'new.db'}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "sluice.wiring" in loaded
    assert {name for name in loaded if name.partition(".")[0] == "alembic"} == set()
    assert {name for name in loaded if name.partition(".")[0] in PARSERS} == set()
    assert {name for name in loaded if name in PARSING_MODULES or name.startswith("sluice_inspect.formats")} == set()


@pytest.mark.asvs("1.4.1")
def test_server_maps_no_parser_library_after_uploads(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    context = client.create_context()
    for extension, make in SOUND_FILES.items():
        client.store(f"sample.{extension}", make(), context=context)
    mapped = Path(f"/proc/{sqlite_local.process.pid}/maps").read_text()
    libraries = {
        line.split("/site-packages/")[1].partition("/")[0] for line in mapped.splitlines() if "/site-packages/" in line
    }
    assert "uvloop" in libraries
    assert libraries & (PARSERS | {"pylibmagic", "pillow.libs", "pikepdf.libs", "numpy.libs"}) == set()
