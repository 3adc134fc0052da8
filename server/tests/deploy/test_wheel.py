"""The wheel and the source archive hold everything: installed into an empty environment, each serves a first upload.

The libraries are those of this environment, so that no index is needed; `make wheel` installs them, too.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PARTS = {"sluice_inspect": "inspect", "sluice": "server"}
"""Import packages with the folders of their distributions."""


def run(*command: str | Path, folder: Path = ROOT) -> str:
    words, variables = [str(word) for word in command], {"PATH": os.environ["PATH"], "SOURCE_DATE_EPOCH": "1790000000"}
    completed = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=240, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for part in PARTS.values():
        run(sys.executable, "-m", "hatchling", "build", "-d", folder, folder=ROOT / part)
    return folder


@pytest.mark.parametrize("package", PARTS)
def test_source_archive_builds_a_wheel_of_the_same_bytes_in_another_folder(
    built: Path, tmp_path: Path, package: str
) -> None:
    (wheel,), (source,) = built.glob(f"{package}-*.whl"), built.glob(f"{package}-*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", folder=unpacked)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.parametrize("package", PARTS)
def test_wheel_contains_its_package_and_nothing_else(built: Path, package: str) -> None:
    (wheel,) = built.glob(f"{package}-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {package, f"{package}-0.1.0.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".db"))]
    assert [name for name in names if name.endswith("LICENSE")]


def test_the_wheel_installed_by_the_hashes_of_a_release_serves_a_first_upload_and_every_page(
    built: Path, tmp_path: Path
) -> None:
    run(sys.executable, ROOT / "scripts" / "attest.py", "requirements", built)
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    site = next((environment / "lib").glob("python*/site-packages"))
    for library in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if "sluice" not in library.name:  # in it everything but Sluice is installed already
            (site / library.name).symlink_to(library)
    options = ("--isolated", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--require-hashes")
    sources = ("--find-links", built, "-r", built / "requirements-0.1.0.txt")
    run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", *options, *sources)
    where = run(environment / "bin" / "python", "-c", "import sluice, sluice_inspect; print(sluice.__file__)")
    assert where.startswith(str(environment))
    run(sys.executable, ROOT / "scripts" / "first_upload.py", environment / "bin" / "sluice")
