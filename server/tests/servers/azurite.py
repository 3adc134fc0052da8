"""Azurite, the emulator of Azure Blob Storage. `make servers` installs it when node and npm exist."""

import base64
import hmac
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, urlencode

import httpx
import pytest

from tests.servers import daemon, free_port, listens

_PROGRAM = Path(__file__).parent / "azure" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
_VERSION = "2023-11-03"


@dataclass(frozen=True)
class Azurite:
    """A running emulator and the key of its one account. Its objects are in memory."""

    endpoint: str
    key: str
    account: str = "acmeuploads"

    def fresh_container(self, access: str | None = None) -> str:
        """Create a container that no other test uses and return its name; `access` is its anonymous access level."""
        name = f"test-{secrets.token_hex(8)}"
        headers = {} if access is None else {"x-ms-blob-public-access": access}
        self.request("PUT", f"/{name}", {"restype": "container"}, headers)
        return name

    def platform_settings(self) -> dict[str, str]:
        """Return the settings of a service whose platform's store is a fresh container."""
        return {
            "STORAGE_URL": f"az://{self.account}/{self.fresh_container()}",
            "STORAGE_ENDPOINT": self.endpoint,
            "STORAGE_SECRET": self.key,
        }

    def keys(self, container: str, *, include: str = "") -> list[str]:
        """Return the keys of the objects in a container (at most 5,000), in order."""
        query = {"restype": "container", "comp": "list", **({"include": include} if include else {})}
        found = self.request("GET", f"/{container}", query).text.split("<Name>")[1:]
        return [one.partition("</Name>")[0] for one in found]

    def blocks(self, container: str, key: str) -> str:
        """Return the list of blocks of an object, committed or not, as XML."""
        query = {"comp": "blocklist", "blocklisttype": "all"}
        return self.request("GET", f"/{container}/{key}", query).text

    def sas(
        self, container: str, permissions: str = "rcwdl", *, ends_in: timedelta = timedelta(days=30), policy: str = ""
    ) -> str:
        """Return a SAS token for a container; with a `policy`, that of the container says what it may."""
        ends = (datetime.now(UTC) + ends_in).strftime("%Y-%m-%dT%H:%M:%SZ")
        own = {"si": policy} if policy else {"sp": permissions, "se": ends}
        lines = [own.get("sp", ""), "", own.get("se", ""), f"/blob/{self.account}/{container}", policy]
        signature = self._signed("\n".join((*lines, "", "", _VERSION, "c", *[""] * 7)))
        return urlencode({**own, "sv": _VERSION, "sr": "c", "sig": signature})

    def set_policy(self, container: str, name: str, permissions: str) -> None:
        """Let a container have one stored access policy, or none if it permits nothing."""
        policy = (
            f"<AccessPolicy><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>{permissions}</Permission></AccessPolicy>"
        )
        entry = f"<SignedIdentifier><Id>{name}</Id>{policy}</SignedIdentifier>" if permissions else ""
        body = f"<SignedIdentifiers>{entry}</SignedIdentifiers>".encode()
        self.request("PUT", f"/{container}", {"restype": "container", "comp": "acl"}, body=body)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> httpx.Response:
        """Send a request that the account key signs; raise for a response that is none of success."""
        url, sent = self.signed(method, path, query or {}, headers or {}, body)
        with httpx.Client(trust_env=False, verify=False) as client:
            return client.request(method, url, headers=sent, content=body).raise_for_status()

    def signed(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> tuple[str, Mapping[str, str]]:
        """Return the URL and the headers of a request that the account key signs."""
        sent = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION, **headers}
        where = quote(f"/{self.account}{path}")
        own = "".join(f"{name}:{sent[name]}\n" for name in sorted(sent))
        resource = f"/{self.account}{where}" + "".join(f"\n{name}:{query[name]}" for name in sorted(query))
        text = f"{method}\n\n\n{len(body) or ''}{chr(10) * 9}{own}{resource}"
        sent["authorization"] = f"SharedKey {self.account}:{self._signed(text)}"
        return f"{self.endpoint}{where}?{urlencode(query)}", sent

    def _signed(self, text: str) -> str:
        return base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")).decode()


@contextmanager
def running_azurite(folder: Path, *, identity: tuple[Path, Path] | None = None) -> Iterator[Azurite]:
    """Run one until the block ends; 1 s to start. Skips the test when its packages are missing.

    With an `identity` (certificate and key, PEM) it serves TLS, and accepts the tokens of clients of a directory,
    without a look at their signatures.
    """
    if shutil.which("node") is None or not _PROGRAM.exists():
        pytest.skip("this setup has no Azurite: `make servers` installs it where node and npm are")
    folder.mkdir(parents=True, exist_ok=True)
    port, server = free_port(), "http"
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    options += ["--inMemoryPersistence", "--disableTelemetry", "--silent"]
    if identity is not None:
        server = "https"
        options += ["--oauth", "basic", "--cert", str(identity[0]), "--key", str(identity[1])]
    azurite = Azurite(f"{server}://127.0.0.1:{port}", base64.b64encode(secrets.token_bytes(64)).decode())
    environment = {"AZURITE_ACCOUNTS": f"{azurite.account}:{azurite.key}"}
    program = [str(shutil.which("node")), str(_PROGRAM), *options]
    with daemon(program, folder / "azurite.log", ready=lambda: listens(port), environment=environment):
        yield azurite
