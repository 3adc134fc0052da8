"""The import contracts of pyproject.toml: the code keeps them, and each rejects the imports that it forbids."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

from tests.repository import ROOT, SOURCES
from tests.rows import every_row

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS = {contract["id"]: contract for contract in PROJECT["tool"]["importlinter"]["contracts"]}

VIOLATIONS = [
    # contract, a module of the code, what it must not import
    ("layers", "sluice/kit/clock.py", "sluice.errors"),
    ("layers", "sluice/kit/clock.py", "sluice.settings"),
    ("layers", "sluice/db/schema.py", "sluice.tenants.tenant"),
    ("layers", "sluice/storage/local/store.py", "sluice.files.record"),
    ("layers", "sluice/tenants/service.py", "sluice.files.service"),
    ("layers", "sluice/buckets/service.py", "sluice.contexts.service"),
    ("layers", "sluice/contexts/service.py", "sluice.uploads.rules"),
    ("layers", "sluice/uploads/upload.py", "sluice.wiring"),
    ("wiring", "sluice/wiring/assembly.py", "sluice.api.app"),
    ("layers", "sluice/worker/runner.py", "sluice.wiring"),
    ("layers", "sluice/api/app.py", "sluice.worker.runner"),
    ("layers", "sluice/asgi.py", "sluice.cli.serve"),
    ("commands", "sluice/uploads/upload.py", "sluice_client.verify"),
    ("client", "sluice_client/cli/keys.py", "sluice.access"),
    ("cycles", "sluice_inspect/budget.py", "sluice_inspect.archives"),
    ("cycles", "sluice/uploads/values.py", "sluice.uploads.rules"),
    ("engines", "sluice/uploads/upload.py", "sluice.storage.local.store"),
    ("engines", "sluice/api/routes/downloads.py", "sluice.storage.s3.store"),
    ("engines", "sluice/files/service.py", "sluice.scanner.clamd.scanner"),
    ("engines", "sluice/cli/check.py", "sluice.scanner.builtin"),
    ("engines-apart", "sluice/storage/local/store.py", "sluice.limiter.memory"),
    ("sandbox", "sluice/uploads/upload.py", "sluice_inspect.sandbox.engine"),
    ("children", "sluice_inspect/formats/png.py", "sluice_inspect.sandbox"),
    ("settings", "sluice/uploads/upload.py", "sluice.settings"),
    ("settings", "sluice/storage/local/store.py", "sluice.settings"),
    ("inspection", "sluice_inspect/inspection.py", "sluice.kit.clock"),
    ("inspection", "sluice_inspect/formats/png.py", "sluice.errors"),
    ("inspection", "sluice_inspect/child/worker.py", "sluice.observe.log"),
    ("formats", "sluice_inspect/formats/png.py", "sluice_inspect.formats.jpeg"),
    ("http", "sluice/uploads/upload.py", "starlette.requests"),
    ("http", "sluice/files/service.py", "fastapi"),
    ("sql", "sluice/uploads/upload.py", "sqlalchemy"),
    ("sql", "sluice/worker/runner.py", "sqlalchemy.exc"),
    ("sql", "sluice/cli/tenants.py", "alembic"),
    ("repositories", "sluice/api/routes/files.py", "sluice.files.repository"),
    ("repositories", "sluice/cli/tenants.py", "sluice.tenants.repository"),
    ("parsers", "sluice/uploads/upload.py", "PIL.Image"),
    ("parsers", "sluice/scanner/clamd/scanner.py", "zipfile"),
    ("server", "sluice/api/app.py", "sluice_inspect.inspection"),
    ("server", "sluice/api/routes/upload.py", "sluice_inspect.formats.png"),
    ("server", "sluice/wiring/assembly.py", "sluice_inspect.child.jobs"),
    ("redis", "sluice/storage/local/store.py", "redis"),
    ("clients", "sluice/buckets/service.py", "botocore.session"),
    ("redis", "sluice/uploads/upload.py", "redis.asyncio"),
    ("watching", "sluice/uploads/upload.py", "prometheus_client"),
    ("watching", "sluice/api/guards.py", "opentelemetry.trace"),
    ("terminal", "sluice/observe/log.py", "rich.console"),
    ("templates", "sluice/api/docs.py", "jinja2"),
    ("console", "sluice/console/pages/files.py", "sluice.db.schema"),
    ("languages", "sluice/uploads/sentences.py", "babel.numbers"),
    ("agents", "sluice/api/app.py", "mcp.server"),
    ("layers", "sluice/messages/catalogue.py", "sluice.uploads.reasons"),
]


def lint(package: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the packages in the folder `package` with this project's contracts, or only those named."""
    chosen: list[str] = [word for contract in contracts for word in ("--contract", contract)]
    program = str(Path(sys.executable).parent / "lint-imports")
    command = [program, "--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml"), *chosen]
    wide = os.environ | {"COLUMNS": "200"}  # no line is broken
    # lint-imports looks for packages in its working folder first
    return subprocess.run(command, cwd=package, env=wide, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of all packages that a test may change."""
    sources = (*SOURCES, ROOT / "clients" / "python" / "src")
    for name, source in zip(("sluice_inspect", "sluice", "sluice_client"), sources, strict=True):
        shutil.copytree(source / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.asvs("1.2.4")
def test_code_keeps_every_contract(package: Path) -> None:
    done = lint(package)
    assert done.returncode == 0, done.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


def test_each_contract_rejects_the_imports_that_it_forbids(package: Path) -> None:
    """All imports are added at once, and each must be named in the part of the report that is its contract's."""
    assert {contract for contract, _module, _imported in VIOLATIONS} == CONTRACTS.keys()
    for _contract, module, imported in VIOLATIONS:
        changed = package / module
        changed.write_text(f"{changed.read_text()}\nimport {imported}\n")
    done = lint(package)
    assert f"0 kept, {len(CONTRACTS)} broken" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    titles = {str(contract["name"]): key for key, contract in CONTRACTS.items()}
    heads = "|".join(map(re.escape, titles))
    _summary, *parts = re.split(rf"^({heads})\n-+\n", done.stdout.partition("Broken contracts")[2], flags=re.MULTILINE)
    reports = {titles[title]: report for title, report in zip(parts[::2], parts[1::2], strict=True)}
    with every_row() as row:
        for contract, module, imported in VIOLATIONS:
            with row((contract, module, imported)):
                assert _names(reports[contract], module.removesuffix(".py").replace("/", "."), imported)


def _names(report: str, importer: str, imported: str) -> bool:
    """Return whether the report names the import.

    It names only the top of external packages, and in cycles only the last part of each module.
    """
    reported = imported if imported.startswith("sluice.") else imported.partition(".")[0]
    pairs = [(importer, reported), (f".{importer.rpartition('.')[2]}", f".{imported.rpartition('.')[2]}")]
    return any(re.search(rf"(?<!\w){re.escape(one)} -> {re.escape(other)}\b", report) for one, other in pairs)


def test_layers_contract_rejects_an_unlisted_module(package: Path) -> None:
    (package / "sluice" / "utils.py").write_text('"""Helpers."""\n')
    done = lint(package, "layers")
    assert "- sluice.utils\n" in done.stdout
    assert done.returncode == 1


def test_parsers_contract_names_every_library_of_sluice_inspect() -> None:
    graph = grimp.build_graph("sluice_inspect", include_external_packages=True, cache_dir=None)
    modules = {"sluice_inspect", *graph.find_descendants("sluice_inspect")}
    imported = {library for module in modules for library in graph.find_modules_directly_imported_by(module)} - modules
    libraries = {library for library in imported if library not in sys.stdlib_module_names}
    # The server matches names with `re2` as well.
    assert libraries - set(CONTRACTS["parsers"]["protected_modules"]) == {"re2"}
