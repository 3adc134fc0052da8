"""Remove from the environment of the image what Sluice never reads: `/opt/sluice/bin/python trim_image.py LOADED`.

Half of what the wheels install are symbols for debuggers, tests of the libraries, descriptions of other services than
S3, and languages in which no sentence is. Bytecode is written of all modules that Sluice imports, and of no others;
LOADED gets the list of it, Python's own modules included. `make image` starts the result and lets it check a file of
each format.
"""

import ast
import importlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode, compile  # noqa: A004

from babel.core import get_global

from sluice.messages.locales import LOCALES
from sluice.messages.rendering import babel_locale

PACKAGES = Path(sysconfig.get_path("purelib"))
OURS = ("sluice", "sluice_client", "sluice_inspect")
# Loaded by their names while the service runs.
BY_NAME = (
    "alembic.command",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "uvloop",
)
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
# Needed to compile against a library, or by type checkers.
SOURCES = {".a", ".c", ".cpp", ".h", ".pxd", ".pxi", ".pyi", ".pyx"}


FOLDERS = {"__pycache__", "test", "testing", "tests"}
# Languages that no text of Sluice is coloured in, databases that it does not use, self-tests, readers of web pages.
UNREAD = (
    "botocore/cacert.pem", "botocore/data/*",  # Sluice signs with botocore and asks for no service of it
    "lxml/html", "lxml/isoschematron", "lxml/objectify.*.so",
    "numpy/_core/*_tests.*.so", "numpy/_core/_simd.*.so", "numpy/distutils", "numpy/f2py",
    "olefile/olefile2.py",  # of Python 2: it cannot be compiled
    "pikepdf/pdfa",
    "pygments/lexers/[!_p]*.py", "pygments/lexers/_[!_m]*.py", "pygments/lexers/p[!y]*.py",
    "sqlalchemy/dialects/mssql", "sqlalchemy/dialects/mysql", "sqlalchemy/dialects/oracle",
    "zstandard/_cffi*.so",  # zstandard has two backends and takes the other one
)  # fmt: skip


def main() -> None:
    """Trim, compile what is imported, and print how much is left."""
    spoken = {name for locale in LOCALES for name in _inherited(str(babel_locale(locale)))}
    unread = [path for path in PACKAGES.glob("babel/locale-data/*.dat") if path.stem not in spoken]
    unread += [path for pattern in UNREAD for path in PACKAGES.glob(pattern)]
    unread += [path for path in PACKAGES.rglob("*") if path.is_dir() and path.name in FOLDERS]
    unread += [path for path in PACKAGES.rglob("*") if path.suffix in SOURCES]
    unread += PACKAGES.glob("*.dist-info/RECORD")  # sums of what is not there any more
    for path in unread:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for path in [each for each in PACKAGES.rglob("*.so*") if each.is_file() and not each.is_symlink()]:
        _strip(path)
    removed = {path.relative_to(PACKAGES).as_posix().partition(".")[0].replace("/", ".") for path in unread}
    compiled = sorted(_compile(path) for path in _imported(removed))
    Path(sys.argv[1]).write_text("".join(f"{path}\n" for path in compiled), encoding="utf-8")
    left = sum(path.stat().st_size for path in PACKAGES.rglob("*") if path.is_file())
    print(f"{PACKAGES}: {left / 1e6:.0f} MB, {len(compiled)} modules of {len(list(PACKAGES.rglob('*.py')))} compiled")


def _inherited(name: str) -> Iterator[str]:
    """Yield a locale and those whose words it has where it has none of its own, as `babel.localedata.load` reads them."""
    while name != "root":
        yield name
        name = get_global("parent_exceptions").get(name) or name.rpartition("_")[0] or "root"
    yield name


def _strip(path: Path) -> None:
    """Remove the symbols of a library, unless it gets larger or cannot be loaded, as some that auditwheel has changed."""
    stripped = path.with_name(f"{path.name}.stripped")
    subprocess.run(["strip", "--strip-unneeded", "-o", stripped, path], check=True)
    is_smaller = stripped.stat().st_size < path.stat().st_size
    load = [sys.executable, "-c", _LOAD, stripped]
    if is_smaller and subprocess.run(load, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        stripped.replace(path)
    else:
        stripped.unlink()


def _imported(removed: set[str]) -> set[Path]:
    """Import whatever our own modules import anywhere, and return the sources of all that this loads."""
    names = {*BY_NAME}
    for path in [each for name in OURS for each in (PACKAGES / name).rglob("*.py")]:
        module = path.relative_to(PACKAGES).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        names.add(module)
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(importlib.util.resolve_name("." * node.level + (node.module or ""), package))
    for name in sorted(names, key=lambda name: (name.partition(".")[0] not in OURS, name)):
        if name.endswith(("__main__", "migrations.env")):  # those do something
            continue
        try:
            importlib.import_module(name)
        except ImportError as fault:  # an extra, or of another system; but not what was removed here
            if fault.name in removed:
                raise
    sources = {Path(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]}
    own = {path for name in OURS for path in (PACKAGES / name).rglob("*.py")}
    return {path for path in sources | own if path.suffix == ".py"}


def _compile(path: Path) -> str:
    """Write the bytecode of a module, which is never compared with its source again, and return its path."""
    written = compile(str(path), doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return str(written)


if __name__ == "__main__":
    main()
