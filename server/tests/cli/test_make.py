"""`make` and `.ci/run`: when the venv is built, how missing programs are reported and what fails a run."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.rows import each_row

ROOT = Path(__file__).parents[3]
Clone = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a copy of the files that `make` needs, with a `bin` folder that comes first on PATH."""
    for name in ("scripts", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Makefile", "requirements.lock", "requirements-dev.lock"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def add_program(clone: Path, name: str, script: str) -> None:
    """Add a shell script that shadows the program of the same name on PATH."""
    path = clone / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(clone: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{clone / 'bin'}:{os.environ['PATH']}", "HOME": str(clone), **environment}
    place: dict[str, Any] = {"cwd": clone, "env": variables, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, **place, capture_output=True, text=True, timeout=60, check=False)


def test_make_help_lists_every_public_target(clone: Path) -> None:
    targets = [line.split()[1] for line in run(clone, "make").stdout.splitlines()]
    phony = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert targets[:3] == ["help", "run", "quick"]
    assert sorted(targets) == sorted(set(phony) - {"lint", "types", "imports", "venv", "venv-dev", "servers"})


def test_make_venv_reports_a_python_that_is_too_old_or_missing(clone: Path) -> None:
    add_program(clone, "oldpython", 'case "$2" in *platform*) echo 3.10.13;; *) exit 1;; esac')
    completed = run(clone, "make", "venv", "PYTHON=oldpython")
    sentence = "Sluice needs Python 3.11 or newer and oldpython is 3.10.13: choose one with make PYTHON=…"
    assert (completed.returncode, completed.stderr.splitlines()[0]) == (2, sentence)
    completed = run(clone, "make", "venv", "PYTHON=nopython")
    assert completed.returncode == 2
    assert completed.stderr.startswith("nopython was not found: ")


def recording_python(clone: Path) -> Path:
    """Shadow the interpreter with one that logs venv and pip commands and creates a stub venv. Return the log."""
    log = clone / "log"
    script = f"""
    case "$*" in
    "-m venv"*) echo "$*" >>{log}; mkdir -p .venv/bin; cp "$0" .venv/bin/python;;
    "-m pip"*) echo "$*" >>{log};;
    *) exec {sys.executable} "$@";;
    esac"""
    add_program(clone, "python3", script)
    log.touch()
    return log


def test_make_venv_installs_the_pinned_lock_once_and_adds_the_development_dependencies(clone: Path) -> None:
    log = recording_python(clone)
    assert run(clone, "make", "venv").returncode == 0
    create_venv, uv, dependencies, project = log.read_text().splitlines()
    assert create_venv == "-m venv --clear .venv"
    assert "--require-hashes --requirement scripts/uv.txt" in uv
    assert "--require-hashes --requirement requirements.lock" in dependencies
    assert "--no-deps --no-build-isolation --editable inspect --editable clients/python --editable server" in project
    assert run(clone, "make", "venv").stdout == ""
    assert len(log.read_text().splitlines()) == 4
    run(clone, "make", "venv-dev")
    run(clone, "make", "venv")
    assert log.read_text().count("-m venv --clear") == 1
    assert log.read_text().count("--requirement requirements-dev.lock") == 1


def test_make_venv_rebuilds_when_the_lock_changes_and_retries_after_a_failed_install(clone: Path) -> None:
    log = recording_python(clone)
    run(clone, "make", "venv")
    (clone / "requirements.lock").write_text("other==1\n")
    script = (clone / "bin" / "python3").read_text()
    add_program(clone, "python3", script.replace('"-m pip"*) echo', '"-m pip"*) exit 1; echo'))
    assert run(clone, "make", "venv").returncode == 2
    recording_python(clone)
    assert run(clone, "make", "venv").returncode == 0
    assert log.read_text().splitlines()[-1].endswith("--editable server")
    assert log.read_text().count("-m venv --clear") == 3
    (clone / "requirements.lock").write_text("another==1\n")
    run(clone, "make", "venv")
    assert log.read_text().count("-m venv --clear") == 4


@pytest.mark.parametrize("uv_fails", [False, True])
def test_make_venv_installs_with_uv_and_with_pip_where_uv_fails(clone: Path, *, uv_fails: bool) -> None:
    log = recording_python(clone)
    run(clone, "make", "venv")
    log.write_text("")
    uv = clone / ".venv" / "bin" / "uv"
    uv.write_text(f"#!/bin/sh\necho uv $* >>{log}\nexit {int(uv_fails)}\n")
    uv.chmod(0o755)
    assert run(clone, "make", "venv-dev").returncode == 0
    installs = [line for line in log.read_text().splitlines() if "--requirement requirements-dev.lock" in line]
    assert all("--require-hashes" in line for line in installs)
    assert [line.split()[0] for line in installs] == (["uv", "-m"] if uv_fails else ["uv"])


def run_servers_script(clone: Path, user: str) -> subprocess.CompletedProcess[str]:
    """Run `scripts/servers.sh` as `user` id with no server on PATH and an apt-get that only logs its arguments."""
    for name in ("env", "bash", "grep", "cat"):
        (clone / "bin" / name).symlink_to(str(shutil.which(name)))
    add_program(clone, "id", f"echo {user}")
    add_program(clone, "apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{clone}/apt_log')
    return run(clone, "scripts/servers.sh", PATH=str(clone / "bin"))


PACKAGES = " radosgw ceph-mon ceph-osd ceph-common clamav-daemon "


def test_servers_script_lists_missing_packages_for_a_regular_user(clone: Path) -> None:
    completed = run_servers_script(clone, "1000")
    assert completed.returncode == 0
    assert "sudo apt-get install --no-install-recommends " in completed.stdout
    assert PACKAGES in completed.stdout
    assert not (clone / "apt_log").exists()


def test_servers_script_installs_missing_packages_as_root_without_prompting(clone: Path) -> None:
    assert run_servers_script(clone, "0").returncode == 0
    update, install = (clone / "apt_log").read_text().splitlines()
    assert update == "noninteractive update -qq"
    assert install.startswith("noninteractive install -y -qq --no-install-recommends ")
    assert PACKAGES in install


def test_a_release_that_must_be_signed_is_not_built_without_a_key(clone: Path) -> None:
    (clone / "dist").mkdir()
    for key, sentence in (("", "SIGNED is set and SLUICE_RELEASE_KEY names no key"), ("none", "does not exist: none")):
        completed = run(clone, "bash", "scripts/release.sh", SIGNED="yes", SLUICE_RELEASE_KEY=key)
        assert completed.returncode == 1
        assert sentence in completed.stderr
    assert (clone / "dist").is_dir()


CI_STEPS = [["venv-dev"], ["servers", "check", "audit", "pythons"], ["bench"], ["test"]]
"""Targets of make: those in one list run at the same time."""


@each_row("failing", ["", *chain.from_iterable(CI_STEPS)])
def test_ci_ends_at_the_first_step_that_fails_and_prints_how_long_each_took(failing: str, clone: Path) -> None:
    (clone / "ran").unlink(missing_ok=True)
    add_program(clone, "make", f'shift; echo "$1" >>ran; [ "$1" != "{failing}" ] || exit 2')
    completed = run(clone, ".ci/run", CI="true")
    last = next((number for number, targets in enumerate(CI_STEPS) if failing in targets), len(CI_STEPS))
    ran = list(chain.from_iterable(CI_STEPS[: last + 1]))
    assert sorted((clone / "ran").read_text().split()) == sorted(ran)
    assert completed.returncode == (1 if failing else 0)
    printed = completed.stderr if failing else completed.stdout
    timed = ran[: ran.index(failing) + 1] if failing else ran
    assert re.findall(r"^ +\d+ s  make (\S+)$", printed, re.MULTILINE) == timed
    assert not failing or completed.stderr.endswith(f"failed: make {failing}\n")


_VENVS = ["VENV=.venv", *(f"VENV=.venv-3.{minor}" for minor in (11, 12, 13, 14))]


def run_on_pythons(clone: Path, make: str, others: str = "") -> subprocess.CompletedProcess[str]:
    """Run `scripts/pythons.sh` with a Python 3.12 and the one of the tests, and `make` in place of make."""
    add_program(clone, "python3.12", "echo Python 3.12.99")
    add_program(clone, "make", make)
    settings = {"PYENV_ROOT": str(clone / "none"), "PYTHON": sys.executable, "OTHERS": others}
    return run(clone, "bash", "scripts/pythons.sh", **settings)


def test_pythons_runs_the_fast_tests_on_each_python_and_names_those_that_are_missing(clone: Path) -> None:
    completed = run_on_pythons(clone, f'echo "$*" >>{clone}/ran')
    assert completed.returncode == 0, completed.stderr
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    ran = (clone / "ran").read_text().splitlines()
    words = {venv: [line.rpartition(" ")[2] for line in ran if venv in line.split()] for venv in _VENVS}
    assert sorted(filter(None, words.values())) == [["venv-dev", "quick"]] * (len(ran) // 2)
    assert f"--no-print-directory PYTHON={sys.executable} VENV=.venv quick" in ran
    assert f"--no-print-directory PYTHON={clone}/bin/python3.12 VENV=.venv-3.12 quick" in ran or own == "3.12"
    tried = {line.partition("VENV=")[2] for line in ran if line.endswith("quick")}
    assert completed.stdout.count(" is not installed: not tried.") == 4 - len(tried)
    (clone / "ran").unlink()
    completed = run_on_pythons(clone, f'echo "$*" >>{clone}/ran', others="1")
    others = [line for line in ran if f"PYTHON={sys.executable} " not in line]
    assert sorted((clone / "ran").read_text().splitlines()) == sorted(others)


def test_pythons_fails_clearly_where_the_libraries_cannot_be_installed(clone: Path) -> None:
    completed = run_on_pythons(clone, 'case "$*" in *3.12*venv-dev) exit 2;; *3.12*) exit 9;; esac')
    assert completed.returncode == 1
    assert "Python 3.12: the pinned libraries cannot be installed.\n" in completed.stderr
    assert completed.stderr.endswith("failed on Python 3.12 (libraries)\n")
