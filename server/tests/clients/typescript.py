"""The TypeScript client of `clients/typescript`, as its tests build and run it: by the npm packages of its folder."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "clients" / "typescript"
OPENAPI = ROOT / "docs" / "reference" / "openapi.json"
_MODULES = PACKAGE / "node_modules"
_SECONDS = 120


def require_node() -> None:
    """Skip the test without Node or the npm packages of the client."""
    if shutil.which("node") is None or not _MODULES.exists():
        pytest.skip("this setup has no packages of clients/typescript: `make servers` installs them where npm is")


def node(*words: str | Path, cwd: Path, fails: bool = False) -> str:
    """Run Node and return what it prints. Asserts that it ends with 0, or with `fails` that it does not."""
    command = ["node", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert (done.returncode != 0) == fails, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr if fails else done.stdout


def tsc(*words: str | Path, cwd: Path, fails: bool = False) -> str:
    return node(_MODULES / "typescript" / "bin" / "tsc", *words, cwd=cwd, fails=fails)


def write_schema(folder: Path) -> None:
    """Write the types of the OpenAPI document below the folder, as `npm run build` does."""
    script = json.loads((PACKAGE / "package.json").read_text())["scripts"]["schema"]
    flags = script.split(" src/schema.ts ")[1].split()
    cli = _MODULES / "openapi-typescript" / "bin" / "cli.js"
    node(cli, OPENAPI, "-o", folder / "src" / "schema.ts", *flags, cwd=folder)


def copy_of_package(folder: Path) -> Path:
    """Copy what is committed of the package into the folder, as `node_modules/@sluice/client`; return its path."""
    package = folder / "node_modules" / "@sluice" / "client"
    ignored = shutil.ignore_patterns("node_modules", "dist", "schema.ts")
    shutil.copytree(PACKAGE, package, ignore=ignored)
    return package


def installed_package(folder: Path) -> Path:
    """Install the package into the folder, compiled without its types, which takes a second; return its path."""
    package = copy_of_package(folder)
    tsc("--noCheck", "--declaration", "false", cwd=package)
    return package


def run_program(folder: Path, program: str, *words: str) -> Any:
    """Run a module in a folder with the installed package, and return the JSON that it prints."""
    path = folder / "program.mjs"
    path.write_text(program)
    return json.loads(node(path, *words, cwd=folder))
