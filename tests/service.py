"""A really running service, and a fresh tenant's tools for talking to it over HTTP. What answers must look like stands in `tests.api`."""

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
from sqlalchemy import select, text

from sluice.api_keys.service import ApiKeys
from sluice.db.database import Database
from sluice.db.schema import decisions
from sluice.db.whose import EVERYBODY
from sluice.tenants.service import Tenants
from sluice.tenants.tenant import Plan, TenantStatus
from tests.api import forms
from tests.api.answers import check_edges, data
from tests.api.samples import TEXT
from tests.api.tokens import LocalIssuer
from tests.cli.forked import ForkedServer
from tests.deeds import deed_of
from tests.servers import Process, end, free_port, listens, wait_until
from tests.servers.radosgw import RadosGateway

API = "/api/v1"
_EXIT_SECONDS = 40
_T = TypeVar("_T")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """Where a setup keeps things: its database, and the S3 bucket that tenants get (None: the service's own folder).

    `owner_url` is the same database as its owner, where the service works in a role that owns nothing: what tests look at and
    change behind its back, they do as the owner. A server here `bears` its zygote itself where tests look at that from outside, see
    `ForkedServer`.
    """

    name: str
    folder: Path
    database_url: str
    settings: Mapping[str, str]
    gateway: RadosGateway | None = None
    bucket: str = ""
    owner_url: str | None = None
    bears: bool = False

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"


@dataclass(frozen=True)
class Service:
    """A running server of one place. `http` asks it; every answer is held to what all answers have in common."""

    place: Place
    url: str
    port: int
    process: Process
    log: Path
    environment: Mapping[str, str]
    http: httpx.Client
    issuer: LocalIssuer

    def on_database(self, act: Callable[[Database], Awaitable[_T]]) -> _T:
        """Do in process what only commands and time can do to a tenant."""

        async def acted() -> _T:
            database = Database(self.place.owner_url or self.place.database_url)
            try:
                return await act(database)
            finally:
                await database.aclose()

        return asyncio.run(acted())

    def new_tenant(self, plan: Plan = "unlimited") -> str:
        async def create(database: Database) -> str:
            return (await Tenants(database).create("Weir & Sons", plan)).tenant_id

        return self.on_database(create)

    def new_gate(self, plan: Plan = "unlimited") -> "Gate":
        """Answer the tools of a fresh tenant, with an admin key made by a token of its own."""
        tenant_id = self.new_tenant(plan)
        first = Gate(self, tenant_id, f"Bearer {self.issuer.token(tenant_id=tenant_id, scope='admin')}")
        return first.as_(first.key("admin"))

    def stop(self) -> None:
        """Ask the server to end and hold it to ending well."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(_EXIT_SECONDS)
        assert code == 0, f"the server ended with {code}: {self.log.read_text(errors='replace')[-2000:]}"


@contextmanager
def running_service(place: Place, **settings: str) -> Iterator[Service]:
    """Run a server on a place, which it sets up itself where nobody did, until the block ends; it must end with code 0."""
    with unguarded_service(place, **settings) as service:
        yield service
        service.stop()
        assert "Traceback" not in service.log.read_text(errors="replace"), service.log.read_text(errors="replace")[-4000:]


@contextmanager
def unguarded_service(place: Place, **settings: str) -> Iterator[Service]:
    """Run a server that the test may end as it likes."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = environment_of(place, port, **settings)
    log = place.folder / f"server-{port}.log"
    client = httpx.Client(base_url=url, timeout=60, event_hooks={"response": [check_edges]}, limits=_MANY)
    # it listens when it is ready, and not before
    with client, forked("serve", log, ready=lambda: listens(port), environment=environment, bears=place.bears) as process:
        yield Service(place, url, port, process, log, environment, client, LocalIssuer(place.data_dir))


@contextmanager
def forked(
    word: str, log: Path, *, ready: Callable[[], bool], environment: Mapping[str, str], bears: bool = False
) -> Iterator[ForkedServer]:
    """Run `sluice serve` or `sluice work` until the block ends, forked from a process that has loaded it."""
    process = ForkedServer(environment, Path("/"), log, [word], bears=bears)
    try:
        wait_until(ready, process, log)
        yield process
    finally:
        end(process)


_MANY = httpx.Limits(max_connections=200, max_keepalive_connections=50)


def environment_of(place: Place, port: int, **settings: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    own = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "DATA_DIR": str(place.data_dir),
        "WORKER_SECONDS": "0.5",  # a round takes 10 ms of processor time, and most of these servers' tests wait for none
        "FAILED_LOGINS": "1000000",  # every test fails to authenticate from the one address 127.0.0.1
        "DATABASE_URL": place.database_url,
    }
    return kept | {_variable(name): value for name, value in (own | dict(place.settings) | settings).items()}


def _variable(name: str) -> str:
    """OpenTelemetry's settings have a prefix already, and it is not ours."""
    return name if name.startswith("OTEL_") else f"SLUICE_{name}"


def module(*words: str) -> list[str]:
    return [sys.executable, "-m", "sluice.cli", *words]


@dataclass(frozen=True)
class Key:
    """An API key as its owner has it: the text is shown once."""

    api_key_id: str
    text: str


@dataclass(frozen=True)
class Gate:
    """One tenant's way to the service with one credential."""

    service: Service
    tenant_id: str
    authorization: str | None

    # asking

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request; `path` is below `/api/v1`, headers given here go before the gate's own."""
        credential = {} if self.authorization is None else {"Authorization": self.authorization}
        headers = credential | dict(more.pop("headers", {}))
        return self.service.http.request(method, API + path, headers=headers, **more)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.ask("GET", path, params=query)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **({} if body is None else {"json": body}), **more)

    def patch(self, path: str, body: Any) -> httpx.Response:
        return self.ask("PATCH", path, json=body)

    def delete(self, path: str) -> httpx.Response:
        return self.ask("DELETE", path)

    # being somebody else

    def as_(self, credential: Key | str | None) -> "Gate":
        """Answer the same tools with another credential."""
        words = credential.text if isinstance(credential, Key) else credential
        return replace(self, authorization=None if words is None else f"Bearer {words}")

    def with_header(self, authorization: str) -> "Gate":
        return replace(self, authorization=authorization)

    def stranger(self) -> "Gate":
        """Answer the tools of another fresh tenant."""
        return self.service.new_gate()

    def token(self, **claims: Any) -> str:
        return self.service.issuer.token(**({"tenant_id": self.tenant_id} | claims))

    # making things

    def key(self, *scopes: str, name: str = "tests", **more: Any) -> Key:
        made = data(self.post("/api-keys", {"name": name, "scopes": list(scopes), **more}), 201)
        return Key(made["api_key_id"], made["api_key"])

    def test_key(self, *scopes: str) -> Key:
        """Answer a key of the kind `sl_test_`, which only a command makes."""

        async def create(database: Database) -> Key:
            issued = await ApiKeys(database).create(deed_of(self.tenant_id), "tests", scopes, mode="test")
            return Key(issued.key.api_key_id, issued.text)

        return self.service.on_database(create)

    def context(self, **rules: Any) -> str:
        """Create a context and answer its key."""
        key = rules.pop("context_key", None) or f"context_{next(_numbers)}"
        created = data(self.post("/contexts", {"context_key": key, "display_name": "Tests", **rules}), 201)
        return str(created["context_key"])

    def upload(
        self, name: str | bytes = "note.txt", content: bytes = TEXT, *, context: str, metadata: Any = None
    ) -> httpx.Response:
        """Upload one file, the file first, as `curl -F file=@x -F context=y` does; a `metadata` that is no text is sent as JSON."""
        parts = [forms.file(name, content), forms.field("context", context)]
        if metadata is not None:
            parts.append(forms.field("metadata", metadata if isinstance(metadata, str) else json.dumps(metadata)))
        return self.upload_parts(parts)

    def upload_parts(self, parts: list[forms.Part]) -> httpx.Response:
        headers = {"Content-Type": forms.content_type()}
        return self.ask("POST", "/files/upload", content=forms.encode(parts), headers=headers)

    def store(self, name: str = "note.txt", content: bytes = TEXT, *, context: str, metadata: Any = None) -> str:
        """Upload one file that must be accepted and answer its id."""
        return str(data(self.upload(name, content, context=context, metadata=metadata), 201)["file_id"])

    def with_store(self) -> "Gate":
        """Give the tenant a default bucket in the place's S3, where it has one; elsewhere its files land in the service's folder."""
        if self.service.place.gateway is not None:
            self.bucket(name="first")
        return self

    def bucket(self, **fields: Any) -> dict[str, Any]:
        """Add a bucket in the place's real S3 and answer it."""
        added: dict[str, Any] = data(self.post(self.buckets, self.bucket_body(**fields)), 201)
        return added

    def bucket_body(self, **fields: Any) -> dict[str, Any]:
        gateway = self.service.place.gateway
        assert gateway is not None, "only a setup with S3 adds buckets"
        own = {
            "name": f"bucket {next(_numbers)}",
            "access_key_id": gateway.access_key,
            "secret_access_key": gateway.secret_key,
            "region": gateway.region,
            "default_bucket": self.service.place.bucket,
            "base_path": self.tenant_id,
            "endpoint_url": gateway.endpoint,
        }
        return own | fields

    # looking

    @property
    def buckets(self) -> str:
        return f"/tenants/{self.tenant_id}/storage-configs"

    def used(self, context: str) -> int:
        return int(data(self.get(f"/contexts/{context}"))["storage_used_bytes"])

    def objects(self) -> set[str]:
        """Answer the keys of this tenant's stored objects, as the store itself has them."""
        place = self.service.place
        if place.gateway is not None:
            pages = place.gateway.client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=f"{self.tenant_id}/")
            return {one["Key"] for page in pages for one in page.get("Contents", [])}
        folder = place.data_dir / "objects" / "objects"
        files = (path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)) for path in files if self.tenant_id in path.parts}

    def decisions(self) -> list[dict[str, Any]]:
        """Answer the tenant's rows of the decision log, oldest first, with what they hold as JSON."""

        async def read(database: Database) -> list[dict[str, Any]]:
            mine = select(decisions).where(decisions.c.tenant_id == self.tenant_id).order_by(decisions.c.report_id)
            async with database.reading(EVERYBODY) as connection:
                return [dict(row._mapping) for row in await connection.execute(mine)]

        return self.service.on_database(read)

    def sql(self, statement: str, **values: Any) -> None:
        """Change a row behind the service's back: how tests make time pass."""

        async def act(database: Database) -> None:
            async with database.transaction(EVERYBODY) as connection:
                await connection.execute(text(statement), values)

        self.service.on_database(act)

    def set_status(self, status: TenantStatus) -> None:
        async def act(database: Database) -> None:
            await Tenants(database).set_status(deed_of(self.tenant_id), status)

        self.service.on_database(act)
