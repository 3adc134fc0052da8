"""Build the container image, full and slim, with rootless tools, and show that it works: `python scripts/image.py`.

With a wheel as its argument: install that into an empty Debian, by pip and by uvx, and time a first upload there.

Each image is run with a read-only root, as user 10001, without capabilities, the spool in memory and the strict
sandbox: it must pass its self-tests, be healthy, take a first upload, keep it over a restart, refuse EICAR, and be
small enough. Skipped by name where the tools are missing. Without SLUICE_TEST_IMAGE_BASE, the name of an image with
Python, the base is made of Debian packages, as no registry may be reachable.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "image"
TOOLS: Final = ("buildah", "podman", "runc", "mmdebstrap")
# The most megabytes that each may have, unpacked. The aims, 450 and 300, are not reached: docs/open.md.
LIMITS: Final = {"full": 550, "slim": 420}
_USER: Final = "10001:10001"
_PORT: Final = 18080  # on loopback; the containers share the network of the machine
_READY_SECONDS: Final = 120.0
_EICAR: Final = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-" + "ANTIVIRUS-TEST-FILE!$H+H*"
# What Debian's own slim images leave out.
_EXCLUDED: Final = ("man/*", "doc/*", "locale/*", "info/*", "groff/*")
_BASES: Final = {
    "build": "ca-certificates,python3,python3-venv,usr-is-merged",
    "runtime": "ca-certificates,python3,usr-is-merged",
}


def main() -> int:
    """Build and show both images; return 1 if one is not as it should be."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: the image needs {', '.join(missing)} (Debian packages of these names)")
        return 0
    environment = _tools_environment()
    bases = _bases(environment)
    if sys.argv[1:]:
        return _show_first_minutes(Path(sys.argv[1]), bases["build"], environment)
    wrong = []
    for name, most in LIMITS.items():
        tag = f"localhost/sluice-{name}"
        _build(tag, bases, environment, media=name == "full")
        found = json.loads(_run("podman", "image", "inspect", tag, environment=environment))[0]
        megabytes = found["Size"] / 1e6
        print(f"{name}: {megabytes:.0f} MB unpacked, at most {most}")
        if megabytes > most:
            wrong.append(f"the {name} image has {megabytes:.0f} MB")
        _check_configuration(found)
        _show(tag, environment)
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
        _run(*command, base, "sh", "-ec", f"{way}; python3 /scripts/first_upload.py /s", environment=environment)
        seconds = time.monotonic() - began
        print(f"empty Debian, {name}: installed, served, accepted a first upload in {seconds:.1f} s (goal: 60 s)")
    return 0


def _tools_environment() -> Mapping[str, str]:
    """Return an environment in which the tools keep everything in our own folder and ask no daemon of systemd."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    storage, containers = FOLDER / "storage.conf", FOLDER / "containers.conf"
    storage.write_text(f'[storage]\ndriver="overlay"\ngraphroot="{FOLDER}/store"\nrunroot="{FOLDER}/run"\n')
    containers.write_text(
        '[engine]\nruntime="runc"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
        '[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'
    )
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(containers)}


def _run(*command: str, environment: Mapping[str, str], is_required: bool = True) -> str:
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    if is_required and done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def _bases(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the images to build in and to run in."""
    named = os.environ.get("SLUICE_TEST_IMAGE_BASE")
    if named is not None:
        return dict.fromkeys(_BASES, named)
    images = {name: f"localhost/sluice-base-{name}" for name in _BASES}
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{path}" for path in _EXCLUDED]
    for name, packages in _BASES.items():
        if subprocess.run(["podman", "image", "exists", images[name]], env=environment, check=False).returncode == 0:
            continue
        archive = FOLDER / f"{name}.tar"
        archive.unlink(missing_ok=True)
        hook = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
        options = ["--quiet", "--variant=minbase", hook, *excluded, f"--include={packages}"]
        _run("mmdebstrap", *options, "bookworm", str(archive), environment=environment)
        _run("podman", "import", "--quiet", str(archive), images[name], environment=environment)
        archive.unlink()
    return images


def _build(tag: str, bases: Mapping[str, str], environment: Mapping[str, str], *, media: bool) -> None:
    version = _run(sys.executable, "-c", "import sluice; print(sluice.__version__)", environment=environment).strip()
    revision = _run("git", "rev-parse", "HEAD", environment=environment, is_required=False).strip() or "unknown"
    arguments = {
        "BASE": bases["build"],
        "RUNTIME": bases["runtime"],
        "MEDIA": "yes" if media else "no",
        "VERSION": version,
        "REVISION": revision,
    }
    # How this machine reaches a package index: certificates of its own, a mirror in the configuration of pip.
    shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
    command = ["buildah", "bud", "--quiet", "--format", "docker", "--isolation", "chroot", "--network", "host"]
    command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    command += [word for path in shared for word in ("--volume", f"{path}:{path}:ro")]
    _run(*command, "-f", "deploy/container/Containerfile", "-t", tag, ".", environment=environment)


def _check_configuration(found: Mapping[str, Any]) -> None:
    labels, configuration = found["Labels"], found["Config"]
    expected = {"title", "description", "licenses", "version", "revision"}
    absent = [name for name in expected if not labels.get(f"org.opencontainers.image.{name}")]
    if absent or configuration["User"] != _USER or found["Healthcheck"]["Test"] != ["CMD", "sluice", "health"]:
        raise SystemExit(f"labels, user or health check are not as they should be: {labels} {configuration}")


@contextmanager
def _running(tag: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a container as the install page says, with the strict sandbox, until the block ends; yield its name."""
    name = f"sluice-proof-{os.getpid()}"
    options = ["--network", "host", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    options += ["--tmpfs", "/tmp", "--tmpfs", "/spool:mode=1777"]  # noqa: S108  (in the container)
    options += ["--volume", f"{name}:/data:U", "--env", "SLUICE_SANDBOX=strict", "--env", "SLUICE_SCANNER=builtin"]
    options += ["--env", f"SLUICE_PORT={_PORT}", "--env", "SLUICE_HOST=127.0.0.1"]
    _run("podman", "run", "--detach", "--name", name, *options, tag, environment=environment)
    try:
        yield name
    except BaseException:
        print(_run("podman", "logs", name, environment=environment, is_required=False), file=sys.stderr)
        raise
    finally:
        _run("podman", "rm", "--force", "--time", "20", name, environment=environment, is_required=False)
        _run("podman", "volume", "rm", "--force", name, environment=environment, is_required=False)


def _show(tag: str, environment: Mapping[str, str]) -> None:
    """Run an image and use it. Raise `SystemExit` that says what is not as it should be."""
    with _running(tag, environment) as name:

        def inside(*command: str, is_required: bool = True) -> str:
            return _run("podman", "exec", name, *command, environment=environment, is_required=is_required)

        def wait_until_healthy() -> float:
            began = time.monotonic()
            # The check of the image itself; without systemd, nothing else would call it.
            while subprocess.run(
                ["podman", "healthcheck", "run", name], env=environment, capture_output=True, check=False
            ).returncode:
                running = _run("podman", "inspect", "--format", "{{.State.Running}}", name, environment=environment)
                if running.strip() != "true" or time.monotonic() - began > _READY_SECONDS:
                    raise SystemExit("the container does not become healthy")
                time.sleep(0.5)
            return time.monotonic() - began

        seconds = wait_until_healthy()
        inside("python", "-c", "import ctypes; ctypes.CDLL('libarchive.so.13').archive_read_support_filter_all")
        key = inside("cat", "/data/keys/first-key").strip()
        context = {"context_key": "claims", "display_name": "Claims"}
        _ask("contexts", key, json.dumps(context).encode(), "application/json")
        status, first = _upload(key, b"Hello, Sluice!")
        if status != HTTPStatus.CREATED:
            raise SystemExit(f"the first upload got {status}: {first}")
        status, refused = _upload(key, _EICAR.encode())
        if (status, refused["errors"]) != (HTTPStatus.BAD_REQUEST, ["virus_detected"]):
            raise SystemExit(f"EICAR got {status}: {refused}")
        doctor = json.loads(inside("sluice", "doctor", "--json", is_required=False))
        (sandbox,) = (engine for engine in doctor["engines"] if engine["kind"] == "sandbox")
        if sandbox["state"] != "up" or sandbox["limits"]["level"] != "strict":
            raise SystemExit(f"the sandbox is not strict: {sandbox}")
        if inside("id", "-u").strip() != "10001" or "sluice" in inside("ls", "/opt/sluice/src", is_required=False):
            raise SystemExit("the container runs as another user")
        if inside("sh", "-c", "touch /opt/sluice/x /x 2>/dev/null && echo written", is_required=False):
            raise SystemExit("the root of the container can be written to")
        libraries = len(json.loads(inside("cat", "/opt/sluice/share/sluice.sbom.json"))["components"])
        _run("podman", "restart", "--time", "40", name, environment=environment)
        again = wait_until_healthy()
        file_id = first["data"]["file_id"]
        status, kept = _ask(f"files/{file_id}/metadata", key)
        if status != HTTPStatus.OK:
            raise SystemExit(f"after a restart the file is not there: {status} {kept}")
        print(
            f"{tag}: read-only, user 10001, sandbox {sandbox['limits']['level']}: healthy after {seconds:.1f} s, first upload "
            f"accepted, EICAR refused, {libraries} libraries in its SBOM, kept over a restart of {again:.1f} s"
        )


def _upload(key: str, content: bytes) -> tuple[int, Any]:
    form = (
        b'--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nclaims\r\n--b\r\n'
        b'Content-Disposition: form-data; name="file"; filename="hello.txt"\r\n\r\n' + content + b"\r\n--b--\r\n"
    )
    return _ask("files/upload", key, form, "multipart/form-data; boundary=b")


def _ask(path: str, key: str, body: bytes | None = None, content_type: str = "") -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {key}"} | ({"Content-Type": content_type} if content_type else {})
    url = f"http://127.0.0.1:{_PORT}/api/v1/{path}"
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310  (a loopback address)
            return response.status, json.load(response)
    except urllib.error.HTTPError as fault:
        return fault.code, json.load(fault)


if __name__ == "__main__":
    sys.exit(main())
