"""Run a script of `scripts/` in the process of the tests, which has its libraries loaded, or in its own process."""

import contextlib
import importlib.util
import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Protocol, cast

SCRIPTS = Path(__file__).parents[2] / "scripts"


class _Script(Protocol):
    def main(self, arguments: list[str]) -> int: ...


@cache
@cache
def _loaded(name: str) -> _Script:
    sys.path.append(str(SCRIPTS))  # as the interpreter does for a script that it runs
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("_Script", module)


def run_in_process(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return the exit code and output of `python scripts/NAME.py` with these arguments."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _loaded(name).main(list(arguments))
    return subprocess.CompletedProcess([name, *arguments], code, out.getvalue(), err.getvalue())


def run_in_subprocess(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script in its own process, as its users do."""
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
