"""Running a script of `scripts/` here, in the process of the tests, which has its libraries loaded. What a script does is tested where it belongs."""

import contextlib
import importlib.util
import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Protocol, cast

SCRIPTS = Path(__file__).parents[1] / "scripts"


class _Script(Protocol):
    def main(self, arguments: list[str]) -> int: ...


@cache
def _loaded(name: str) -> _Script:
    sys.path.append(str(SCRIPTS))  # as the interpreter does for a script that it runs
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("_Script", module)


def run_here(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Answer what `python scripts/NAME.py` with these arguments would end with."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _loaded(name).main(list(arguments))
    return subprocess.CompletedProcess([name, *arguments], code, out.getvalue(), err.getvalue())


def run_alone(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it as its users do, in a process of its own."""
    command = [sys.executable, str(SCRIPTS / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
