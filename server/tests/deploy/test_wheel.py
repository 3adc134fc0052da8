"""The wheel and the source archive hold everything: installed into an empty environment, each serves a first upload.

The libraries are those of this environment, so that no index is needed; `make wheel` installs them, too.
"""

import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
LIBRARIES = Path(sysconfig.get_paths()["purelib"])
"""The packages of this environment, in which everything is installed already."""
PARTS = {"sluice_inspect": "inspect", "sluice_client": "clients/python", "sluice": "server"}
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
    run("tar", "-xf", source, folder=tmp_path)
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


def test_wheel_of_sluice_inspect_judges_files_with_the_libraries_that_it_names(built: Path, tmp_path: Path) -> None:
    environment = environment_with("sluice-inspect", built, tmp_path)
    judged = run(environment / "bin" / "python", ROOT / "scripts" / "release" / "inspect_files.py")
    assert len(judged.splitlines()) == 11, judged
    assert judged.endswith("frameworks loaded: 0\n")


@pytest.fixture(scope="module")
def client_program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of sluice-client, installed without the server."""
    return environment_with("sluice-client", built, tmp_path_factory.mktemp("client"), extra="cli") / "bin" / "sluice"


def test_commands_of_sluice_client_say_what_needs_the_server(client_program: Path) -> None:
    words = [str(client_program), "keys", "list", "--tenant", "ten_1"]
    path = {"PATH": os.environ["PATH"]}
    refused = subprocess.run(words, env=path, capture_output=True, text=True, timeout=60, check=False)
    assert (refused.returncode, "pip install sluice" in refused.stderr) == (2, True)


def test_the_wheel_installed_by_the_hashes_of_a_release_serves_every_page_and_an_upload_of_sluice_client(
    built: Path, client_program: Path, tmp_path: Path
) -> None:
    run(sys.executable, ROOT / "scripts" / "attest.py", "requirements", built)
    environment = empty_environment(tmp_path)
    for library in LIBRARIES.iterdir():
        if "sluice" not in library.name:
            (site_of(environment) / library.name).symlink_to(library)
    sources = ("--require-hashes", "--find-links", built, "-r", built / "requirements-0.1.0.txt")
    install(environment, *sources)
    where = run(environment / "bin" / "python", "-c", "import sluice, sluice_inspect; print(sluice.__file__)")
    assert where.startswith(str(environment))
    upload = (client_program, "upload", ROOT / "README.md", "--context", "claims")
    served = environment / "bin" / "sluice"
    assert "accepted  " in run(sys.executable, ROOT / "scripts" / "first_upload.py", served, *upload)


def install(environment: Path, *what: str | Path) -> None:
    """Install packages without an index, with the pip of this environment: the new one has it only meanwhile."""
    pip = site_of(environment) / "pip"
    pip.unlink(missing_ok=True)
    pip.symlink_to(LIBRARIES / "pip")
    options = ("--isolated", "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--no-compile")
    run(environment / "bin" / "python", "-m", "pip", "install", *options, *what)
    pip.unlink()


def site_of(environment: Path) -> Path:
    """Return the folder of packages of an environment."""
    return next((environment / "lib").glob("python*/site-packages"))


def environment_with(name: str, built: Path, folder: Path, *, extra: str = "") -> Path:
    """Return a new environment with a built wheel and the libraries that it names."""
    environment = empty_environment(folder)
    site = site_of(environment)
    for library in required_by(name, extra):
        for path in {file.parts[0] for file in distribution(library).files or ()} - {".."}:
            if not (site / path).exists():
                (site / path).symlink_to(LIBRARIES / path)
    (wheel,) = built.glob(f"{name.replace('-', '_')}-*.whl")
    install(environment, wheel)
    return environment


def empty_environment(folder: Path) -> Path:
    """Return a new environment without packages."""
    environment = folder / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    return environment


def required_by(name: str, extra: str = "") -> set[str]:
    """Return what a distribution needs with one of its extras, or none, and what that needs."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        needed = [Requirement(text) for text in distribution(waiting.pop()).requires or ()]
        new = {
            canonicalize_name(each.name)
            for each in needed
            if each.marker is None or each.marker.evaluate({"extra": extra})
        } - found
        found |= new
        waiting += new
    return found
