"""The recipe for Next.js: its types with those of Next.js, and its route in Node against a running service."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.api.samples import picture
from tests.clients.typescript import copy_of_package, require_node, tsc, write_schema
from tests.examples.conftest import BROKEN, EXAMPLES

RECIPE = EXAMPLES / "nextjs"
PROGRAM = """
import { readFile } from "node:fs/promises";
import { POST } from "./app/api/claims/route.js";
for (const name of process.argv.slice(2)) {
  const body = new FormData();
  body.append("file", new File([await readFile(name)], name));
  const response = await POST(new Request("http://localhost/api/claims", { method: "POST", body }));
  console.log(response.status, JSON.stringify(await response.json()));
}
"""


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recipe beside the packages that it names and the client, as `npm install` makes it."""
    require_node()
    if not (RECIPE / "node_modules" / "next").exists():
        pytest.skip("this setup has no packages of examples/nextjs: `make servers` installs them where npm is")
    folder = tmp_path_factory.mktemp("nextjs")
    shutil.copytree(RECIPE, folder, ignore=shutil.ignore_patterns("node_modules"), dirs_exist_ok=True)
    package = copy_of_package(folder)
    write_schema(package)
    tsc("--noCheck", cwd=package)
    for installed in (RECIPE / "node_modules").iterdir():
        (folder / "node_modules" / installed.name).symlink_to(installed)
    return folder


def test_the_types_of_the_recipe_agree_with_those_of_nextjs(application: Path) -> None:
    tsc("-p", application, cwd=application)
    route = application / "app" / "api" / "claims" / "route.ts"
    code = route.read_text()
    try:
        route.write_text(code.replace('.get("Accept-Language")', ".got()"))
        assert "Property 'got' does not exist" in tsc("-p", application, cwd=application, fails=True)
    finally:
        route.write_text(code)


def test_the_route_stores_a_file_and_returns_the_sentence_for_another(
    application: Path, environment: Mapping[str, str], sentence: str, newest: Callable[[], str]
) -> None:
    tsc("-p", application, "--noEmit", "false", "--noCheck", cwd=application)
    (application / "package.json").write_text('{"type": "module"}')
    (application / "program.mjs").write_text(PROGRAM)
    (application / "next.png").write_bytes(picture())
    (application / "broken.png").write_bytes(BROKEN)
    command = ["node", "program.mjs", "next.png", "broken.png"]
    output = subprocess.check_output(command, cwd=application, env=dict(environment), text=True, timeout=60)
    stored, rejected = output.splitlines()
    assert stored.startswith('201 {"file_id":"file_')
    assert rejected == f'400 {{"message":"{sentence}"}}'
    assert newest() == "next.png"
