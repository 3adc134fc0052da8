"""`make` and `.ci/run` as far as they decide anything: what is built when, what is named when missing, what fails."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Clone = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What of a fresh clone `make` needs, with programs of ours before those of the machine."""
    for name in ("scripts", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def program(clone: Path, name: str, script: str) -> None:
    """Put a program before those of the machine."""
    path = clone / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(clone: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{clone / 'bin'}:{os.environ['PATH']}", "HOME": str(clone), **environment}
    return subprocess.run(
        command, cwd=clone, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def test_help_names_every_target_for_people(clone: Path) -> None:
    done = run(clone, "make")
    named = [line.split()[1] for line in done.stdout.splitlines()]
    tried = ["fuzz", "fuzz-edge", "security", "audit", "sbom", "verdicts", "kill-sweep"]
    tried += [
        "faults",
        "rolling-upgrade",
        "failover",
        "contract-matrix",
        "races",
        "state-machine",
        "matrix",
        "bench",
        "bench-scale",
        "bench-scanner",
    ]
    assert named == ["help", "run", "test", "test-long", "check", "format", "lock", *tried, "docs", "clean"]


def test_a_python_that_is_too_old_is_named(clone: Path) -> None:
    program(clone, "oldpython", 'case "$2" in *platform*) echo 3.10.13;; *) exit 1;; esac')
    done = run(clone, "make", "venv", "PYTHON=oldpython")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == (
        "Sluice needs Python 3.11 or newer and oldpython is 3.10.13: choose one with make PYTHON=…"
    )


def test_a_python_that_is_not_there_is_named(clone: Path) -> None:
    done = run(clone, "make", "venv", "PYTHON=nopython")
    assert done.returncode == 2
    assert done.stderr.startswith("There is no nopython: ")


def recorded_python(clone: Path) -> Path:
    """Put an interpreter before the machine's that writes down what makes the venv, and makes none."""
    log = clone / "log"
    script = f"""
    case "$*" in
    "-m venv"*) echo "$*" >>{log}; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
    "-m pip"*) echo "$*" >>{log};;
    *) exec {sys.executable} "$@";;
    esac"""
    program(clone, "python3", script)
    log.touch()
    return log


def test_the_venv_is_built_from_the_pinned_lock_and_then_left_alone(clone: Path) -> None:
    log = recorded_python(clone)
    assert run(clone, "make", "venv").returncode == 0
    made, dependencies, project = log.read_text().splitlines()
    assert made == "-m venv --clear .venv"
    assert "--require-hashes --requirement requirements.lock" in dependencies
    assert "--no-deps --no-build-isolation --editable ." in project
    assert run(clone, "make", "venv").stdout == ""
    assert len(log.read_text().splitlines()) == 3


def test_the_venv_is_built_anew_when_the_lock_changes(clone: Path) -> None:
    log = recorded_python(clone)
    run(clone, "make", "venv")
    (clone / "requirements.lock").write_text("other==1\n")
    run(clone, "make", "venv")
    assert log.read_text().count("-m venv --clear") == 2


def test_what_development_needs_is_added_to_the_venv(clone: Path) -> None:
    log = recorded_python(clone)
    run(clone, "make", "venv")
    run(clone, "make", "venv-dev")
    run(clone, "make", "venv")
    assert log.read_text().count("-m venv --clear") == 1
    assert log.read_text().count("--requirement requirements-dev.lock") == 1


def test_an_install_that_fails_is_tried_again(clone: Path) -> None:
    log = recorded_python(clone)
    run(clone, "make", "venv")
    (clone / "requirements.lock").write_text("other==1\n")
    program(clone, "python3", (clone / "bin" / "python3").read_text().replace('"-m pip"*) echo', '"-m pip"*) exit 1; echo'))
    assert run(clone, "make", "venv").returncode == 2
    recorded_python(clone)
    assert run(clone, "make", "venv").returncode == 0
    assert log.read_text().splitlines()[-1].endswith("--editable .")


def without_servers(clone: Path, user: str) -> subprocess.CompletedProcess[str]:
    """Look for servers as `user` on a machine that has none on its PATH, and whose apt-get only writes down what it is asked."""
    for name in ("env", "bash", "grep", "cat"):
        (clone / "bin" / name).symlink_to(str(shutil.which(name)))
    program(clone, "id", f"echo {user}")
    program(clone, "apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{clone}/asked')
    return run(clone, "scripts/servers.sh", PATH=str(clone / "bin"))


def test_missing_servers_are_named_to_who_may_not_install(clone: Path) -> None:
    done = without_servers(clone, "1000")
    assert done.returncode == 0
    assert "sudo apt-get install --no-install-recommends " in done.stdout
    assert " radosgw ceph-mon ceph-osd ceph-common clamav-daemon " in done.stdout
    assert not (clone / "asked").exists()


def test_missing_servers_are_installed_by_root_without_asking(clone: Path) -> None:
    done = without_servers(clone, "0")
    assert done.returncode == 0
    update, install = (clone / "asked").read_text().splitlines()
    assert update == "noninteractive update -qq"
    assert install.startswith("noninteractive install -y -qq --no-install-recommends ")
    assert " radosgw ceph-mon ceph-osd ceph-common clamav-daemon " in install


@pytest.mark.parametrize(("failing", "code"), [("", 0), ("check", 1), ("bench", 1), ("test", 1)])
def test_ci_runs_the_checks_the_ratios_and_the_tests_and_fails_when_any_did(failing: str, code: int, clone: Path) -> None:
    script = f'for word; do case "$word" in check|bench|test) echo "$word" >>ran; [ "$word" != "{failing}" ] || exit 2;; esac; done'
    program(clone, "make", script)
    done = run(clone, ".ci/run", CI="true")
    assert (clone / "ran").read_text().split() == ["check", "bench", "test"]
    assert done.returncode == code
    assert (f"failed: make {failing}" in done.stderr) is bool(failing)
