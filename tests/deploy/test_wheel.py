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

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, folder: Path = ROOT) -> str:
    words, path = [str(word) for word in command], {"PATH": os.environ["PATH"]}
    completed = subprocess.run(words, cwd=folder, env=path, capture_output=True, text=True, timeout=240, check=False)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder)
    return folder


def test_the_source_archive_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", folder=unpacked)
    (again,) = (tmp_path / "again").glob("*.whl")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"sluice", "sluice_inspect", "sluice-0.1.0.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".db"))]
    assert [name for name in names if name.endswith("LICENSE")]


def test_the_installed_wheel_serves_a_first_upload_and_every_page(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    options = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", *options, wheel)
    site = next((environment / "lib").glob("python*/site-packages"))
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"])
    where = run(environment / "bin" / "python", "-c", "import sluice, sluice_inspect; print(sluice.__file__)")
    assert where.startswith(str(environment))
    run(sys.executable, ROOT / "scripts" / "first_upload.py", environment / "bin" / "sluice")
