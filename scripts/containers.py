"""Images and containers without a Docker engine and without a registry, for `image.py`, `image_upgrade.py` and `compose.py`.

Everything is kept in `build/image`. Debian packages: buildah podman runc mmdebstrap.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "image"
with socket.create_server(("127.0.0.1", 0)) as _free:
    PORT: Final = int(_free.getsockname()[1])
    """On loopback; the containers share the network of the machine."""
READY_SECONDS: Final = 120.0
EICAR: Final = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-" + b"ANTIVIRUS-TEST-FILE!$H+H*"
_TOOLS: Final = ("buildah", "podman", "runc", "mmdebstrap")
# What Debian's own slim images leave out.
_EXCLUDED: Final = ("man/*", "doc/*", "locale/*", "info/*", "groff/*")
_BASES: Final = {
    "build": "ca-certificates,python3,python3-venv,usr-is-merged",
    "runtime": "ca-certificates,python3,usr-is-merged",
}


def missing_tools(*others: str) -> list[str]:
    """Return the Debian packages of these names, besides those that every image needs, that this machine lacks."""
    path = f"{os.environ['PATH']}:/usr/sbin:/usr/lib/podman"
    return [tool for tool in (*_TOOLS, *others) if shutil.which(tool, path=path) is None]


def tools_environment() -> Mapping[str, str]:
    """Return an environment in which the tools keep everything in our own folder and ask no daemon of systemd."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    storage, containers = FOLDER / "storage.conf", FOLDER / "containers.conf"
    storage.write_text(f'[storage]\ndriver="overlay"\ngraphroot="{FOLDER}/store"\nrunroot="{FOLDER}/run"\n')
    containers.write_text(
        '[engine]\nruntime="runc"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n'
        '[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=1024:1024"]\n'
    )
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(containers)}


def run(*command: str, environment: Mapping[str, str], folder: Path = ROOT, is_required: bool = True) -> str:
    """Run a command in a folder and return its output. Raise `SystemExit` with it if the command fails."""
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if is_required and done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def bases(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the images to build in and to run in."""
    named = os.environ.get("SLUICE_TEST_IMAGE_BASE")
    if named is not None:
        return dict.fromkeys(_BASES, named)
    images = {name: f"localhost/sluice-base-{name}" for name in _BASES}
    for name, packages in _BASES.items():
        if subprocess.run(["podman", "image", "exists", images[name]], env=environment, check=False).returncode == 0:
            continue
        make_debian(images[name], packages, environment)
    return images


def make_debian(tag: str, packages: str, environment: Mapping[str, str], *, script: str = "") -> None:
    """Make an image of Debian packages, whose containers run the script, if one is given."""
    archive, entry = FOLDER / "debian.tar", FOLDER / "entry"
    archive.unlink(missing_ok=True)
    entry.write_text(script, encoding="utf-8")
    options = ["--quiet", "--variant=minbase", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"]
    options += [f"--dpkgopt=path-exclude=/usr/share/{path}" for path in _EXCLUDED]
    options += ["--dpkgopt=path-include=/usr/share/doc/*/copyright", f"--include={packages}"]
    options += [f"--customize-hook=copy-in {entry} /"] if script else []
    run("mmdebstrap", *options, "bookworm", str(archive), environment=environment)
    change = ["--change", 'ENTRYPOINT ["/bin/sh", "/entry"]'] if script else []
    run("podman", "import", "--quiet", *change, str(archive), tag, environment=environment)
    archive.unlink()


def build(
    tag: str,
    bases: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    folder: Path = ROOT,
    commit: str = "HEAD",
    media: bool,
) -> None:
    """Build the image of a folder, which holds that commit."""
    version = run(sys.executable, "-c", "import sluice; print(sluice.__version__)", environment=environment).strip()
    revision = run("git", "rev-parse", commit, environment=environment, is_required=False).strip() or "unknown"
    arguments = {
        "BASE": bases["build"],
        "RUNTIME": bases["runtime"],
        "MEDIA": "yes" if media else "no",
        "VERSION": version,
        "REVISION": revision,
    }
    # How this machine reaches a package index: certificates of its own, a mirror in the configuration of pip.
    shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
    command = ["buildah", "bud", "--quiet", "--layers", "--cache-ttl", "24h", "--format", "docker"]
    command += ["--isolation", "chroot", "--network", "host"]
    command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    command += [word for path in shared for word in ("--volume", f"{path}:{path}:ro")]
    run(*command, "-f", "deploy/container/Containerfile", "-t", tag, ".", environment=environment, folder=folder)


@contextmanager
def running(tag: str, volume: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a container as the install page says, with the strict sandbox, until the block ends; yield its name."""
    name = f"sluice-proof-{os.getpid()}"
    options = ["--network", "host", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges"]
    options += ["--tmpfs", "/tmp", "--tmpfs", "/spool:mode=1777"]  # noqa: S108  (in the container)
    options += ["--volume", f"{volume}:/data:U", "--env", "SLUICE_SANDBOX=strict", "--env", "SLUICE_SCANNER=builtin"]
    options += ["--env", f"SLUICE_PORT={PORT}", "--env", "SLUICE_HOST=127.0.0.1"]
    run("podman", "run", "--detach", "--name", name, *options, tag, environment=environment)
    try:
        yield name
    except BaseException:
        print(run("podman", "logs", name, environment=environment, is_required=False), file=sys.stderr)
        raise
    finally:
        run("podman", "stop", "--time", "40", name, environment=environment, is_required=False)
        run("podman", "rm", "--force", name, environment=environment, is_required=False)


@contextmanager
def new_volume(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the name of a volume that is removed when the block ends."""
    name = f"sluice-proof-{os.getpid()}"
    try:
        yield name
    finally:
        run("podman", "volume", "rm", "--force", name, environment=environment, is_required=False)


def wait_until_healthy(name: str, environment: Mapping[str, str]) -> float:
    """Return after how many seconds the health check of the image itself passes. Raise `SystemExit` if it does not."""
    began = time.monotonic()
    # Without systemd, nothing else calls it.
    check = ["podman", "healthcheck", "run", name]
    while subprocess.run(check, env=environment, capture_output=True, check=False).returncode:
        running = run("podman", "inspect", "--format", "{{.State.Running}}", name, environment=environment)
        if running.strip() != "true" or time.monotonic() - began > READY_SECONDS:
            raise SystemExit("the container does not become healthy")
        time.sleep(0.5)
    return time.monotonic() - began


@dataclass(frozen=True)
class Service:
    """A running service and a key of it."""

    key: str
    url: str = f"http://127.0.0.1:{PORT}"

    def create_context(self) -> None:
        """Create the context that files are uploaded into."""
        context = {"context_key": "claims", "display_name": "Claims"}
        self.ask("contexts", json.dumps(context).encode(), "application/json")

    def upload(self, content: bytes) -> tuple[int, Any]:
        """Upload a text; return the status and the answer."""
        form = (
            b'--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nclaims\r\n--b\r\n'
            b'Content-Disposition: form-data; name="file"; filename="hello.txt"\r\n\r\n' + content + b"\r\n--b--\r\n"
        )
        return self.ask("files/upload", form, "multipart/form-data; boundary=b")

    def accepted(self, content: bytes) -> str:
        """Upload a text that must be accepted; return the id of its file."""
        status, answer = self.upload(content)
        if status != HTTPStatus.CREATED:
            raise SystemExit(f"the upload got {status}: {answer}")
        return str(answer["data"]["file_id"])

    def require_refused_virus(self) -> None:
        """Raise `SystemExit` unless EICAR is refused as a virus."""
        status, refused = self.upload(EICAR)
        if (status, refused["errors"]) != (HTTPStatus.BAD_REQUEST, ["virus_detected"]):
            raise SystemExit(f"EICAR got {status}: {refused}")

    def require_kept(self, file_id: str, content: bytes) -> None:
        """Raise `SystemExit` unless the file downloads with these bytes, from the address of the service."""
        status, answer = self.ask(f"files/{file_id}")
        if status != HTTPStatus.OK:
            raise SystemExit(f"a file that was kept is not there: {status} {answer}")
        link = urlsplit(answer["data"]["download_url"])
        # A name under localhost is known to browsers, but not to every machine.
        reached = link._replace(netloc=f"{urlsplit(self.url).hostname}:{link.port}").geturl()
        request = urllib.request.Request(reached, headers={"Host": link.netloc})  # noqa: S310  (a loopback address)
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            if response.read() != content:
                raise SystemExit("a file downloads with other bytes")

    def ask(self, path: str, body: bytes | None = None, content_type: str = "") -> tuple[int, Any]:
        """Send a request; return the status and the answer."""
        headers = {"Authorization": f"Bearer {self.key}"} | ({"Content-Type": content_type} if content_type else {})
        url = f"{self.url}/api/v1/{path}"
        request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310  (a loopback address)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310  (a loopback address)
                return response.status, json.load(response)
        except urllib.error.HTTPError as fault:
            return fault.code, json.load(fault)
