"""Where the distributions and their tests are in this repository."""

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = (ROOT / "inspect" / "src", ROOT / "server" / "src")
"""The folders of the packages `sluice_inspect` and `sluice`."""
TESTS: Final = (ROOT / "inspect" / "tests", ROOT / "server" / "tests", ROOT / "clients" / "python" / "tests")


def import_path(checkout: Path) -> str:
    """Return the `PYTHONPATH` of a process that runs the server of a checkout without its installation."""
    return os.pathsep.join(str(checkout / part / "src") for part in ("inspect", "clients/python", "server"))


IMPORT_PATH: Final = import_path(ROOT)
