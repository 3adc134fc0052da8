"""Write what a release is verified by: requirements with hashes, provenance, checksums and their signature.

python scripts/attest.py requirements dist       when the wheel is in the folder
python scripts/attest.py sign dist --commit ID --started TIME --finished TIME       when everything else is

SLUICE_RELEASE_KEY names the SSH key that signs; without it the release is unsigned, and that is said. SOURCE_DATE_EPOCH
is that of the build. The files depend on the arguments, the folder, the locks and the interpreter only: a repeated
build gives the same bytes. docs/install.md describes them to those who verify a release.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

ROOT: Final = Path(__file__).parents[1]
NAMESPACE: Final = "sluice-release"
"""What the signature is for: with it the key's other signatures, such as those of commits, are none of a release."""
BUILD_TYPE: Final = "urn:sluice:make-release:v1"
LOCAL_BUILDER: Final = "urn:sluice:builder:local"
"""Names, not addresses: the project has no host of its own."""
_LOCKS: Final = ("requirements.lock", "requirements-dev.lock", "scripts/uv.txt", "clients/typescript/package-lock.json")
_SUMS: Final = "SHA256SUMS"


def main(arguments: list[str]) -> int:
    """Carry out the command of these arguments; return the exit code."""
    parser = argparse.ArgumentParser(prog="attest.py", description="Write what a release is verified by.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("requirements", help="write requirements-VERSION.txt").add_argument("folder", type=Path)
    sign = commands.add_parser("sign", help="write the provenance, SHA256SUMS and SHA256SUMS.sig")
    sign.add_argument("folder", type=Path)
    sign.add_argument("--commit", required=True, help="the Git commit that was built")
    sign.add_argument("--started", required=True, metavar="TIME", help="when the build began, as 2026-01-31T12:00:00Z")
    sign.add_argument("--finished", required=True, metavar="TIME", help="when it ended")
    sign.add_argument("--builder", default=LOCAL_BUILDER, metavar="URI", help="who built (%(default)s)")
    given = parser.parse_args(arguments)
    folder: Path = given.folder
    (server,) = folder.glob("sluice-*.whl")
    others = [next(folder.glob(f"{name}-*.whl")) for name in ("sluice_client", "sluice_inspect")]
    version = str(parse_wheel_filename(server.name)[1])
    if given.command == "requirements":
        _write_requirements(folder / f"requirements-{version}.txt", [*others, server])
        return 0

    provenance = folder / f"sluice-{version}.provenance.json"
    made_here = {provenance.name, _SUMS, f"{_SUMS}.sig"}
    artifacts = sorted(path for path in folder.iterdir() if path.name not in made_here)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_described(path, name=path.name) for path in artifacts],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "version": version,
                    "commit": given.commit,
                    "SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"],
                },
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": given.commit}},
                    *(_described(ROOT / lock, name=lock) for lock in _LOCKS),
                    *_build_packages("hatchling"),
                ],
            },
            "runDetails": {
                "builder": {"id": given.builder, "version": {"python": platform.python_version()}},
                "metadata": {"startedOn": given.started, "finishedOn": given.finished},
            },
        },
    }
    provenance.write_text(json.dumps(statement, indent=2) + "\n", encoding="utf-8")
    sums = folder / _SUMS
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in sorted([*artifacts, provenance])))
    return _sign(sums, os.environ.get("SLUICE_RELEASE_KEY"))


def _write_requirements(target: Path, wheels: Iterable[Path]) -> None:
    """Write the lock and the wheels themselves as one file for `pip install --require-hashes --no-deps`."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for wheel in wheels:
        name, version, *_ = parse_wheel_filename(wheel.name)
        lines += f"{name}=={version} \\\n    --hash=sha256:{_sha256(wheel)}\n"
    target.write_text(lines, encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _described(path: Path, *, name: str) -> dict[str, Any]:
    """Return the ResourceDescriptor of in-toto for a file."""
    return {"name": name, "digest": {"sha256": _sha256(path)}}


def _build_packages(backend: str) -> Iterable[dict[str, str]]:
    """Return the build backend and what it needs, as installed; the locks have the hashes of their files."""
    found: dict[str, str] = {}
    waiting = [backend]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in found:
            found[name] = importlib.metadata.version(name)
            needed = map(Requirement, importlib.metadata.requires(name) or ())
            waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return [{"name": name, "uri": f"pkg:pypi/{name}@{found[name]}"} for name in sorted(found)]


def _sign(sums: Path, key: str | None) -> int:
    """Sign the checksums and print the fingerprint of the key, or say that they are unsigned."""
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)  # ssh-keygen would ask whether to overwrite it
    if not key:
        print("The release is unsigned: SLUICE_RELEASE_KEY names no key.")
        return 0
    if subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", key, str(sums)], check=False
    ).returncode:
        print("The release is unsigned: ssh-keygen could not sign it.", file=sys.stderr)
        return 1
    check = ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    with sums.open("rb") as file:
        print(subprocess.run(check, stdin=file, stdout=subprocess.PIPE, text=True, check=True).stdout, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
