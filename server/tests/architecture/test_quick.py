"""`make quick`: its modules test pure code, so neither they nor what they import starts a server or a process."""

import ast
import re
from pathlib import Path
from typing import Final

from tests.rows import each_row

ROOT: Final = Path(__file__).parents[3]
(_LISTED,) = re.findall(r"^QUICK := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
QUICK: Final = _LISTED.replace("\\\n", " ").split()
PROCESSES: Final = ("subprocess", "multiprocessing", "playwright")
FORBIDDEN: Final = (*PROCESSES, "tests.servers", "tests.service", "tests.fleet", "tests.cli")


def _tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def _imports(module: Path) -> set[str]:
    """Return the modules that it imports; `from package import name` counts as `package.name` too."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _imports_of_tests(module: Path) -> set[str]:
    """Return what the module imports, and what the modules of `tests` among those import."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        new = _imports(waiting.pop()) - found
        found |= new
        paths = [(ROOT / name.replace(".", "/")).with_suffix(".py") for name in new if name.startswith("tests.")]
        waiting += [path for path in paths if path.exists()]
    return found


def _fixtures(module: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any("fixture" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def _parameters(module: Path) -> set[str]:
    return {
        parameter.arg
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name.startswith("test_") or node.name in _fixtures(module))
        for parameter in (*node.args.args, *node.args.kwonlyargs)
    }


def test_the_quick_modules_exist() -> None:
    assert len(QUICK) > 20
    assert [path for path in QUICK if not (ROOT / path).is_file()] == []


@each_row("path", QUICK)
def test_a_quick_module_imports_no_server_and_no_process(path: str) -> None:
    imported = _imports_of_tests(ROOT / path)
    assert [name for name in sorted(imported) for one in FORBIDDEN if name == one or name.startswith(f"{one}.")] == []


@each_row("path", QUICK)
def test_a_quick_module_takes_no_fixture_of_a_conftest(path: str) -> None:
    shared = _fixtures(ROOT / "server/tests/conftest.py")
    shared |= {name for conftest in (ROOT / path).parent.glob("conftest.py") for name in _fixtures(conftest)}
    assert {"postgres", "service", "s3"} <= shared
    assert _parameters(ROOT / path) & (shared - _fixtures(ROOT / path)) == set()
