"""A client of tus 1.0.0 that sends each request by itself, so that a test sees every response."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.api.samples import TEXT, eicar
from tests.service import API, ApiClient

VERSION = {"Tus-Resumable": "1.0.0"}
BYTES = "application/offset+octet-stream"
HALF = len(TEXT) // 2
INFECTED = eicar()
LARGE = b"\x07\x1b" + bytes(range(256)) * 80_000
"""20 MB of no known format, kept in three segments."""


def metadata(**fields: str) -> str:
    return ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in fields.items())


@dataclass(frozen=True)
class Tus:
    """One resumable upload of a client; `path` is below `/api/v1`."""

    client: ApiClient
    path: str

    def request(self, method: str, *, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        return self.client.request(method, self.path, headers=VERSION | (headers or {}), **more)

    def head(self) -> httpx.Response:
        return self.request("HEAD")

    @property
    def offset(self) -> int:
        found = self.head()
        assert found.status_code == 200, found
        return int(found.headers["upload-offset"])

    def patch(self, content: bytes | Iterator[bytes], offset: int, **headers: str) -> httpx.Response:
        sent = {"Content-Type": BYTES, "Upload-Offset": str(offset)}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("PATCH", headers=sent, content=content)

    def as_client(self, client: ApiClient) -> "Tus":
        return Tus(client, self.path)


def create(
    client: ApiClient,
    length: int | str,
    *,
    content: bytes | None = None,
    headers: dict[str, str] | None = None,
    **fields: str,
) -> httpx.Response:
    """Send a creation; `fields` are its metadata."""
    sent = VERSION | {"Upload-Length": str(length), "Upload-Metadata": metadata(**fields)}
    if content is not None:
        sent["Content-Type"] = BYTES
    return client.request("POST", "/uploads", headers=sent | (headers or {}), content=content)


def begin(
    client: ApiClient, length: int, *, context: str, filename: str = "note.txt", more: Mapping[str, str] | None = None
) -> Tus:
    """Create an upload that must be accepted; `more` is metadata beside context and name."""
    fields = {"context": context, "filename": filename} | dict(more or {})
    created = create(client, length, headers={"Upload-Metadata": metadata(**fields)})
    assert created.status_code == 201, created.text
    return Tus(client, urlsplit(created.headers["location"]).path.removeprefix(API))
