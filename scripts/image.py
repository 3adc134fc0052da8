"""Build the container image, full and slim, with rootless tools, and show that it works: `python scripts/image.py`.

With `--wheel FILE`: install that into an empty Debian, by pip and by uvx, and time a first upload there. With `--archive
FILE.tar.gz`: the slim image alone, which is then written to the file, for a release.

Each image is run with a read-only root, as user 10001, without capabilities, the spool in memory and the strict
sandbox: it must pass its self-tests, be healthy, take a first upload, keep it over a restart, refuse EICAR, and be
small enough. Skipped by name where the tools are missing. Without SLUICE_TEST_IMAGE_BASE, the name of an image with
Python, the base is made of Debian packages, as no registry may be reachable.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from containers import (
    ROOT,
    Service,
    bases,
    build,
    missing_tools,
    new_volume,
    run,
    running,
    tools_environment,
    wait_until_healthy,
)

LIMITS: Final = {"full": 450, "slim": 300}
"""The most megabytes that each may have, unpacked."""
_USER: Final = "10001:10001"
_CONTENT: Final = b"Hello, Sluice! " * 100_000  # more than is kept in memory: it goes to the spool


def main() -> int:
    """Build and show both images; return 1 if one is not as it should be."""
    if missing := missing_tools():
        print(f"skipped: the image needs {', '.join(missing)} (Debian packages of these names)")
        return 0
    parser = argparse.ArgumentParser(description="Build the container image, and show that it works.")
    parser.add_argument("--wheel", type=Path, help="install this wheel into an empty Debian instead")
    parser.add_argument("--archive", type=Path, help="build the slim image alone, and write it to this file")
    given = parser.parse_args()
    environment = tools_environment()
    images = bases(environment)
    if given.wheel:
        return _show_first_minutes(given.wheel, images["build"], environment)
    wrong = []
    for name, most in LIMITS.items():
        if given.archive and name != "slim":
            continue
        tag = f"localhost/sluice-{name}"
        build(tag, images, environment, media=name == "full")
        found = json.loads(run("podman", "image", "inspect", tag, environment=environment))[0]
        megabytes = found["Size"] / 1e6
        print(f"{name}: {megabytes:.0f} MB unpacked, at most {most}")
        if megabytes > most:
            wrong.append(f"the {name} image has {megabytes:.0f} MB")
        _check_configuration(found)
        _show(tag, environment)
        if given.archive and not wrong:
            version = found["Labels"]["org.opencontainers.image.version"]
            target = given.archive.with_suffix("")  # gzip adds `.gz`
            # An archive of OCI would lose the health check, and older releases of Docker do not read it.
            released = f"localhost/sluice:{version}"
            run("podman", "tag", tag, released, environment=environment)
            save = ["podman", "save", "--quiet", "--format", "docker-archive", "--output", str(target)]
            target.unlink(missing_ok=True)
            run(*save, released, environment=environment)
            run("gzip", "--force", "--no-name", str(target), environment=environment)
            print(f"{given.archive}: {given.archive.stat().st_size / 1e6:.0f} MB")
    for sentence in wrong:
        print(sentence, file=sys.stderr)
    return 1 if wrong else 0


def _show_first_minutes(wheel: Path, base: str, environment: Mapping[str, str]) -> int:
    """Time both ways from nothing to a first upload."""
    ways = {
        "pip": f"python3 -m venv /e && /e/bin/pip install -q --find-links /dist '/dist/{wheel.name}[media,heif,redis]' && cp /e/bin/sluice /s",
        "uvx": "python3 -m venv /u && /u/bin/pip install -q uv && printf '#!/bin/sh\\nexport HOME=/root "
        f'SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt\\nexec /u/bin/uvx --find-links /dist --from /dist/{wheel.name} sluice "$@"\\n\' '
        ">/s && chmod 755 /s",
    }
    for name, way in ways.items():
        shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
        volumes = [f"{path}:{path}:ro" for path in shared] + [f"{wheel.absolute().parent}:/dist:ro"]
        volumes.append(f"{ROOT / 'scripts'}:/scripts:ro")
        command = ["podman", "run", "--rm", "--network", "host", "--env", "PIP_NO_CACHE_DIR=1"]
        command += ["--env", "PIP_DISABLE_PIP_VERSION_CHECK=1"]
        command += [word for volume in volumes for word in ("--volume", volume)]
        began = time.monotonic()
        run(*command, base, "sh", "-ec", f"{way}; python3 /scripts/first_upload.py /s", environment=environment)
        seconds = time.monotonic() - began
        print(f"empty Debian, {name}: installed, served, accepted a first upload in {seconds:.1f} s (goal: 60 s)")
    return 0


def _check_configuration(found: Mapping[str, Any]) -> None:
    labels, configuration = found["Labels"], found["Config"]
    expected = {"title", "description", "licenses", "version", "revision"}
    absent = [name for name in expected if not labels.get(f"org.opencontainers.image.{name}")]
    if absent or configuration["User"] != _USER or found["Healthcheck"]["Test"] != ["CMD", "sluice", "health"]:
        raise SystemExit(f"labels, user or health check are not as they should be: {labels} {configuration}")


def _show(tag: str, environment: Mapping[str, str]) -> None:
    """Run an image and use it. Raise `SystemExit` that says what is not as it should be."""
    with new_volume(environment) as volume, running(tag, volume, environment) as name:

        def inside(*command: str, is_required: bool = True) -> str:
            return run("podman", "exec", name, *command, environment=environment, is_required=is_required)

        seconds = wait_until_healthy(name, environment)
        if "libarchive" in inside("python", "-c", "import sluice_inspect.format as f; print(*f.missing_readers())"):
            raise SystemExit("libarchive is not found")
        service = Service(inside("cat", "/data/keys/first-key").strip())
        service.create_context()
        first = service.accepted(_CONTENT)
        service.require_refused_virus()
        doctor = json.loads(inside("sluice", "doctor", "--json", is_required=False))
        (sandbox,) = (engine for engine in doctor["engines"] if engine["kind"] == "sandbox")
        if sandbox["state"] != "up" or sandbox["limits"]["level"] != "strict":
            raise SystemExit(f"the sandbox is not strict: {sandbox}")
        if inside("id", "-u").strip() != "10001" or "sluice" in inside("ls", "/opt/sluice/src", is_required=False):
            raise SystemExit("the container runs as another user")
        if inside("sh", "-c", "touch /opt/sluice/x /x 2>/dev/null && echo written", is_required=False):
            raise SystemExit("the root of the container can be written to")
        if found := inside("sh", "-c", "command -v apt-get dpkg perl pip su", is_required=False):
            raise SystemExit(f"the image has programs that it should not have: {found}")
        libraries = len(json.loads(inside("cat", "/opt/sluice/share/sluice.sbom.json"))["components"])
        run("podman", "restart", "--time", "40", name, environment=environment)
        again = wait_until_healthy(name, environment)
        service.require_kept(first, _CONTENT)
        print(
            f"{tag}: read-only, user 10001, sandbox {sandbox['limits']['level']}: healthy after {seconds:.1f} s, first upload "
            f"accepted, EICAR refused, {libraries} libraries in its SBOM, kept over a restart of {again:.1f} s"
        )


if __name__ == "__main__":
    sys.exit(main())
