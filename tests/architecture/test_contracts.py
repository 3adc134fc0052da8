"""The import contracts of pyproject.toml: the code keeps them, and each refuses the import that it is there for."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
}

VIOLATIONS = [
    # contract, a module of the package, what it must not import
    ("floors", "kit/clock.py", "sluice.errors"),
    ("floors", "kit/clock.py", "sluice.settings"),
    ("floors", "db/schema.py", "sluice.tenants.tenant"),
    ("floors", "formats/verdict.py", "sluice.threats"),
    ("floors", "engines/storage/local.py", "sluice.files.record"),
    ("floors", "tenants/service.py", "sluice.files.service"),
    ("floors", "buckets/service.py", "sluice.contexts.service"),
    ("floors", "contexts/service.py", "sluice.uploads.decide"),
    ("floors", "uploads/pipeline.py", "sluice.wiring"),
    ("floors", "wiring/assembly.py", "sluice.api.app"),
    ("floors", "worker/sweeps.py", "sluice.wiring"),
    ("floors", "api/app.py", "sluice.worker.loop"),
    ("floors", "asgi.py", "sluice.cli.command"),
    ("cycles", "formats/verdict.py", "sluice.formats.check"),
    ("cycles", "uploads/values.py", "sluice.uploads.pipeline"),
    ("engines", "uploads/pipeline.py", "sluice.engines.storage.local"),
    ("engines", "api/routes/downloads.py", "sluice.engines.storage.s3"),
    ("engines", "files/service.py", "sluice.engines.scanner.clamd"),
    ("engines", "cli/checking.py", "sluice.engines.sandbox.zygote"),
    ("engines-apart", "engines/storage/local.py", "sluice.engines.limiter.memory"),
    ("engines-apart", "engines/sandbox/zygote.py", "sluice.engines.scanner.protocol"),
    ("settings", "uploads/pipeline.py", "sluice.settings"),
    ("settings", "engines/storage/local.py", "sluice.settings"),
    ("formats", "formats/check.py", "sluice.kit.sealed"),
    ("formats", "formats/kinds/png.py", "sluice.errors"),
    ("formats", "threats/scan.py", "sluice.observe.log"),
    ("kinds", "formats/kinds/png.py", "sluice.formats.kinds.jpeg"),
    ("stages", "uploads/stages/scan.py", "sluice.uploads.stages.examine"),
    ("http", "uploads/intake.py", "starlette.requests"),
    ("http", "files/service.py", "fastapi"),
    ("sql", "uploads/pipeline.py", "sqlalchemy"),
    ("sql", "worker/sweeps.py", "sqlalchemy.exc"),
    ("sql", "cli/tenants.py", "alembic"),
    ("repositories", "api/routes/files.py", "sluice.files.repository"),
    ("repositories", "cli/tenants.py", "sluice.tenants.repository"),
    ("parsers", "uploads/intake.py", "PIL.Image"),
    ("parsers", "engines/scanner/clamd.py", "zipfile"),
    ("server", "uploads/pipeline.py", "sluice.formats.check"),
    ("server", "uploads/values.py", "sluice.formats.kinds.png"),
    ("server", "engines/scanner/builtin.py", "sluice.threats.walk"),
    ("server", "wiring/assembly.py", "sluice.engines.sandbox.jobs"),
    ("redis", "engines/storage/local.py", "redis"),
    ("clients", "buckets/service.py", "botocore.session"),
    ("redis", "uploads/pipeline.py", "redis.asyncio"),
    ("watching", "uploads/pipeline.py", "prometheus_client"),
    ("watching", "api/guards.py", "opentelemetry.trace"),
    ("terminal", "observe/log.py", "rich.console"),
]


def lint(package: Path, *contracts: str) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package below `package` with this project's contracts, or only those named."""
    chosen: list[str] = [word for contract in contracts for word in ("--contract", contract)]
    program = str(Path(sys.executable).parent / "lint-imports")
    command = [program, "--no-cache", "--no-logo", "--config", str(ROOT / "pyproject.toml"), *chosen]
    # lint-imports looks for the package in the folder that it runs in first
    return subprocess.run(command, cwd=package, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that a test may spoil."""
    shutil.copytree(ROOT / "src" / "sluice", tmp_path / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.asvs("1.2.4")
def test_the_code_keeps_every_contract(package: Path) -> None:
    done = lint(package)
    assert done.returncode == 0, done.stdout
    assert f"{len(CONTRACTS)} kept, 0 broken" in done.stdout


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_contract_refuses_every_import_that_it_is_there_for(contract: str, package: Path) -> None:
    """All at once: each must be named, so that none hides behind another."""
    violations = [(module, imported) for violated, module, imported in VIOLATIONS if violated == contract]
    assert violations, "no import proves that it bites"
    for module, imported in violations:
        spoiled = package / "sluice" / module
        spoiled.write_text(f"{spoiled.read_text()}\nimport {imported}\n")
    done = lint(package, contract)
    assert "0 kept, 1 broken" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    for module, imported in violations:
        assert _names(done.stdout, "sluice." + module.removesuffix(".py").replace("/", "."), imported), (
            f"{imported}:\n{done.stdout}"
        )


def _names(report: str, importer: str, imported: str) -> bool:
    """Answer whether the report names the import: of other packages by their top alone, in cycles by the last parts."""
    whole = imported if imported.startswith("sluice.") else imported.partition(".")[0]
    pairs = [(importer, whole), (f".{importer.rpartition('.')[2]}", f".{imported.rpartition('.')[2]}")]
    return any(re.search(rf"(?<!\w){re.escape(one)} -> {re.escape(other)}\b", report) for one, other in pairs)


def test_a_package_that_stands_on_no_floor_is_refused(package: Path) -> None:
    (package / "sluice" / "utils.py").write_text('"""Anything."""\n')
    done = lint(package, "floors")
    assert "- sluice.utils\n" in done.stdout
    assert done.returncode == 1


def test_every_library_that_reads_files_is_named_in_the_contract_of_parsers() -> None:
    graph = grimp.build_graph("sluice", include_external_packages=True, cache_dir=None)
    readers = {
        "sluice.formats",
        *graph.find_descendants("sluice.formats"),
        "sluice.threats",
        *graph.find_descendants("sluice.threats"),
    }
    imported = {library for reader in readers for library in graph.find_modules_directly_imported_by(reader)} - readers
    libraries = {library for library in imported if library not in sys.stdlib_module_names}
    assert libraries - set(CONTRACTS["parsers"]["protected_modules"]) == set()
