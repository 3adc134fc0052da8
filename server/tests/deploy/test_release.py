"""What a release is verified by: provenance, checksums, their signature and requirements with hashes."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.required import require
from tests.scripts import run_in_process

ROOT = Path(__file__).parents[3]
COMMIT = "a" * 40
ARTIFACTS = (
    "CHANGES-0.1.0.md",
    "sluice-0.1.0-py3-none-any.whl",
    "sluice-0.1.0.sbom.json",
    "sluice-client-0.1.0.tgz",
    "sluice_client-0.1.0-py3-none-any.whl",
    "sluice_inspect-0.1.0-py3-none-any.whl",
)
LOCKS = ("requirements.lock", "requirements-dev.lock", "scripts/uv.txt", "clients/typescript/package-lock.json")
NAMESPACE = "sluice-release"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with artifacts; nothing signs them yet."""
    monkeypatch.delenv("SLUICE_RELEASE_KEY", raising=False)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ARTIFACTS:
        (folder / name).write_bytes(name.encode())
    return folder


def attest(folder: Path) -> subprocess.CompletedProcess[str]:
    times = ("--started", "2026-09-21T14:13:20Z", "--finished", "2026-09-21T14:20:00Z")
    return run_in_process("attest", "sign", str(folder), "--commit", COMMIT, *times)


def verify(folder: Path, allowed: Path, namespace: str = NAMESPACE) -> int:
    """Return the exit code of the first command of docs/install.md."""
    command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "sluice-release", "-n", namespace]
    with (folder / "SHA256SUMS").open("rb") as sums:
        signature = ["-s", str(folder / "SHA256SUMS.sig")]
        return subprocess.run([*command, *signature], stdin=sums, capture_output=True, check=False).returncode


def checksums_hold(folder: Path) -> bool:
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(folder: Path) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads((folder / "sluice-0.1.0.provenance.json").read_text())
    return statement


def test_a_signed_release_verifies_until_a_byte_of_an_artifact_or_of_the_checksums_changes(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("ssh-keygen", "ssh-keygen", apt="openssh-client")
    key, allowed = tmp_path / "key", tmp_path / "allowed_signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    public = key.with_suffix(".pub").read_text()
    allowed.write_text(f'sluice-release namespaces="{NAMESPACE}" {public}')
    monkeypatch.setenv("SLUICE_RELEASE_KEY", str(key))
    signed = attest(release)
    assert (signed.returncode, signed.stdout.startswith(f'Good "{NAMESPACE}" signature')) == (0, True)
    assert (verify(release, allowed), checksums_hold(release)) == (0, True)
    assert verify(release, allowed, namespace="git") != 0

    (release / "sluice-0.1.0.provenance.json").write_bytes(b"{}")
    assert not checksums_hold(release)
    sums = release / "SHA256SUMS"
    sums.write_text(sums.read_text().replace("0", "1", 1))
    assert verify(release, allowed) != 0


def test_provenance_and_checksums_name_every_artifact_by_its_digest(release: Path) -> None:
    assert attest(release).returncode == 0
    digests = {name: digest(release / name) for name in ARTIFACTS}
    assert {one["name"]: one["digest"]["sha256"] for one in provenance(release)["subject"]} == digests
    lines = (release / "SHA256SUMS").read_text().splitlines()
    listed = {name: sha256 for sha256, name in (line.split("  ") for line in lines)}
    name = "sluice-0.1.0.provenance.json"
    assert listed == digests | {name: digest(release / name)}


def test_provenance_names_the_commit_the_locks_and_the_packages_of_the_build(release: Path) -> None:
    attest(release)
    predicate = provenance(release)["predicate"]
    definition = predicate["buildDefinition"]
    parameters = {"version": "0.1.0", "commit": COMMIT, "SOURCE_DATE_EPOCH": "1790000000"}
    assert definition["externalParameters"] == parameters
    dependencies = {one["name"]: one for one in definition["resolvedDependencies"]}
    assert dependencies["source"]["digest"] == {"gitCommit": COMMIT}
    assert [dependencies[lock]["digest"]["sha256"] for lock in LOCKS] == [digest(ROOT / lock) for lock in LOCKS]
    packages = [one["uri"] for one in dependencies.values() if "uri" in one]
    pinned = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower()
    assert len(packages) > 3
    assert all(f"\n{uri.removeprefix('pkg:pypi/').replace('@', '==')} " in pinned for uri in packages), packages
    documented = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"`{definition['buildType']}`" in documented
    assert f"`{predicate['runDetails']['builder']['id']}`" in documented


def test_attesting_the_same_build_again_gives_the_same_bytes_and_says_that_they_are_unsigned(release: Path) -> None:
    unsigned = attest(release)
    first = {path.name: path.read_bytes() for path in release.iterdir()}
    (release / "SHA256SUMS.sig").write_text("of an earlier try")
    assert attest(release).returncode == 0
    assert {path.name: path.read_bytes() for path in release.iterdir()} == first
    assert unsigned.stdout == "The release is unsigned: SLUICE_RELEASE_KEY names no key.\n"


def test_pip_refuses_a_wheel_that_is_not_the_one_in_the_requirements_of_the_release(release: Path) -> None:
    assert run_in_process("attest", "requirements", str(release)).returncode == 0
    requirements = release / "requirements-0.1.0.txt"
    libraries, _, own = requirements.read_text(encoding="utf-8").partition("sluice-client==")
    assert libraries == (ROOT / "requirements.lock").read_text(encoding="utf-8")
    requirements.write_text(f"sluice-client=={own}")
    (release / "sluice_client-0.1.0-py3-none-any.whl").write_bytes(b"another")
    options = ("--isolated", "--no-index", "--no-deps", "--require-hashes", "--target", str(release / "site"))
    command = [sys.executable, "-m", "pip", "install", *options, "--find-links", str(release), "-r", str(requirements)]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "DO NOT MATCH THE HASHES" in refused.stderr
