"""A running server, and API clients of its tenants. What a valid response looks like is in `tests.api.responses`."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
from sqlalchemy import bindparam, select, text

from sluice.access import operator
from sluice.api_keys.service import ApiKeys
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import decisions
from sluice.db.sql import Moment
from sluice.tenants.service import Tenants
from sluice.tenants.tenant import Plan, TenantStatus
from tests.api import forms
from tests.api.responses import check_response, data
from tests.api.samples import TEXT
from tests.api.tokens import LocalIssuer
from tests.cli.forked import ForkedServer
from tests.operator_action import operator_action
from tests.servers import Process, end, free_port, listens, wait_until
from tests.servers.radosgw import RadosGateway

API = "/api/v1"
_EXIT_SECONDS = 40
_T = TypeVar("_T")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Deployment:
    """Where a service keeps its data: its database, and the S3 bucket of its tenants (None: the service's own folder).

    `owner_url` is the same database for its owner, when the service uses a role that owns nothing: tests use it to read
    and change rows directly. With `own_zygote` the server forks its own zygote, for tests that inspect it from outside:
    see `ForkedServer`.
    """

    name: str
    folder: Path
    database_url: str
    settings: Mapping[str, str]
    gateway: RadosGateway | None = None
    bucket: str = ""
    owner_url: str | None = None
    own_zygote: bool = False

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"


METRICS_TOKEN = "the-metrics-token-of-the-tests"


@dataclass(frozen=True)
class Service:
    """A running server of one deployment. `http` sends requests to it and checks every response."""

    deployment: Deployment
    url: str
    port: int
    process: Process
    log: Path
    environment: Mapping[str, str]
    http: httpx.Client
    issuer: LocalIssuer

    def on_database(self, act: Callable[[Database], Awaitable[_T]]) -> _T:
        """Run a function on the database, for what only commands and time can do to a tenant."""

        async def acted() -> _T:
            database = Database(self.deployment.owner_url or self.deployment.database_url)
            try:
                return await act(database)
            finally:
                await database.aclose()

        # In a thread of its own: in the tests of browsers a loop of Playwright's runs in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, acted()).result()

    def new_tenant(self, plan: Plan = "unlimited") -> str:
        async def create(database: Database) -> str:
            return (await Tenants(database).create("Weir & Sons", plan)).tenant_id

        return self.on_database(create)

    def new_client(self, plan: Plan = "unlimited") -> "ApiClient":
        """Return an API client of a fresh tenant, with an admin key."""
        place = (self.deployment.database_url, plan)
        if not _fresh_tenants.get(place):
            number = 10 if place in _fresh_tenants else 1
            _fresh_tenants[place] = self.on_database(partial(_create_tenants, plan, number))
        tenant_id, key = _fresh_tenants[place].pop()
        return ApiClient(self, tenant_id, None).with_credential(key)

    def ready(self) -> httpx.Response:
        """Return what `/health/ready` shows to the operator."""
        headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
        return httpx.get(f"{self.url}/health/ready", headers=headers, timeout=30, verify=False)

    def stop(self) -> None:
        """Stop the server and assert that it exits with code 0. If it does not exit, show the stacks of its tasks."""
        self.process.send_signal(signal.SIGCONT)  # it may be stopped: see server/tests/conftest.py
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)  # `tests.cli.forked` writes them to the log, and exits
            code = self.process.wait(_EXIT_SECONDS)
        assert code == 0, f"the server ended with {code}: {self.log.read_text(errors='replace')[-8000:]}"


_fresh_tenants: dict[tuple[str, Plan], list[tuple[str, str]]] = {}
"""Tenants that no test has used, with the text of an admin key, by database and plan.

The second request makes ten: they cost three times what one costs. Many databases need one tenant.
"""


async def _create_tenants(plan: Plan, number: int, database: Database) -> list[tuple[str, str]]:
    ids = [(await Tenants(database).create("Weir & Sons", plan)).tenant_id for _ in range(number)]
    actions = [AuditAction(operator(tenant_id, "tests"), "api_key.created") for tenant_id in ids]
    return [(by.tenant_id, (await ApiKeys(database).create(by, "tests", ["admin"])).text) for by in actions]


@contextmanager
def running_service(deployment: Deployment, **settings: str) -> Iterator[Service]:
    """Run a server on a deployment until the block ends, and assert that it exits cleanly."""
    with unchecked_service(deployment, **settings) as service:
        yield service
        service.stop()
        log = service.log.read_text(errors="replace")
        at = log.find("Traceback")
        assert at < 0, log[max(0, at - 2000) : at + 4000]


@contextmanager
def unchecked_service(deployment: Deployment, **settings: str) -> Iterator[Service]:
    """Run a server that the test may stop or kill itself."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = environment_of(deployment, port, **settings)
    log = deployment.folder / f"server-{port}.log"
    client = httpx.Client(base_url=url, timeout=60, event_hooks={"response": [check_response]}, limits=_MANY)
    # it listens when it is ready, and not before
    with (
        client,
        forked_process(
            "serve", log, ready=lambda: listens(port), environment=environment, own_zygote=deployment.own_zygote
        ) as process,
    ):
        yield Service(deployment, url, port, process, log, environment, client, LocalIssuer(deployment.data_dir))


@contextmanager
def forked_process(
    word: str, log: Path, *, ready: Callable[[], bool], environment: Mapping[str, str], own_zygote: bool = False
) -> Iterator[ForkedServer]:
    """Run `sluice serve` or `sluice work` until the block ends, forked from a process that has loaded the code."""
    process = ForkedServer(environment, Path("/"), log, [word], own_zygote=own_zygote)
    try:
        wait_until(ready, process, log)
        yield process
    finally:
        end(process)


_MANY = httpx.Limits(max_connections=200, max_keepalive_connections=50)


def environment_of(deployment: Deployment, port: int, **settings: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    own = {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "DATA_DIR": str(deployment.data_dir),
        "PROCESSES": "1",  # several have tests of their own, and tests look into the process
        "WORKER_SECONDS": "1",  # an idle round takes some milliseconds of processor time
        "FAILED_LOGINS": "1000000",  # every test fails to authenticate from the one address 127.0.0.1
        "DATABASE_URL": deployment.database_url,
        "METRICS_TOKEN": METRICS_TOKEN,
    }
    return kept | {_variable(name): value for name, value in (own | dict(deployment.settings) | settings).items()}


def _variable(name: str) -> str:
    """Return the name of the environment variable: OpenTelemetry's settings already have a prefix."""
    return name if name.startswith("OTEL_") else f"SLUICE_{name}"


def cli_command(*words: str) -> list[str]:
    return [sys.executable, "-m", "sluice.cli", *words]


@dataclass(frozen=True)
class Key:
    """An API key as its owner has it: the text is shown only once."""

    api_key_id: str
    text: str


@dataclass(frozen=True)
class ApiClient:
    """An API client of one tenant with one credential."""

    service: Service
    tenant_id: str
    authorization: str | None

    # requests

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send one request; `path` is below `/api/v1`, and the given headers override the client's own."""
        credential = {} if self.authorization is None else {"Authorization": self.authorization}
        headers = credential | dict(more.pop("headers", {}))
        return self.service.http.request(method, API + path, headers=headers, **more)

    def get(self, path: str, **query: Any) -> httpx.Response:
        return self.request("GET", path, params=query)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.request("POST", path, **({} if body is None else {"json": body}), **more)

    def patch(self, path: str, body: Any) -> httpx.Response:
        return self.request("PATCH", path, json=body)

    def delete(self, path: str) -> httpx.Response:
        return self.request("DELETE", path)

    # other callers

    def with_credential(self, credential: Key | str | None) -> "ApiClient":
        """Return the same client with another credential."""
        words = credential.text if isinstance(credential, Key) else credential
        return replace(self, authorization=None if words is None else f"Bearer {words}")

    def with_authorization(self, authorization: str) -> "ApiClient":
        return replace(self, authorization=authorization)

    def other_tenant_client(self) -> "ApiClient":
        """Return an API client of another fresh tenant."""
        return self.service.new_client()

    def token(self, **claims: Any) -> str:
        return self.service.issuer.token(**({"tenant_id": self.tenant_id} | claims))

    # create

    def create_key(self, *scopes: str, name: str = "tests", **more: Any) -> Key:
        made = data(self.post("/api-keys", {"name": name, "scopes": list(scopes), **more}), 201)
        return Key(made["api_key_id"], made["api_key"])

    def create_test_key(self, *scopes: str) -> Key:
        """Return a key of the kind `sl_test_`, which only a command creates."""

        async def create(database: Database) -> Key:
            issued = await ApiKeys(database).create(operator_action(self.tenant_id), "tests", scopes, mode="test")
            return Key(issued.key.api_key_id, issued.text)

        return self.service.on_database(create)

    def create_context(self, **rules: Any) -> str:
        """Create a context and return its key."""
        key = rules.pop("context_key", None) or f"context_{next(_numbers)}"
        created = data(self.post("/contexts", {"context_key": key, "display_name": "Tests", **rules}), 201)
        return str(created["context_key"])

    def upload(
        self, name: str | bytes = "note.txt", content: bytes = TEXT, *, context: str, metadata: Any = None
    ) -> httpx.Response:
        """Upload one file, with the file field first as `curl -F file=@x -F context=y` does.

        A `metadata` that is not a text is sent as JSON.
        """
        parts = [forms.file(name, content), forms.field("context", context)]
        if metadata is not None:
            parts.append(forms.field("metadata", metadata if isinstance(metadata, str) else json.dumps(metadata)))
        return self.upload_parts(parts)

    def upload_parts(self, parts: list[forms.Part]) -> httpx.Response:
        headers = {"Content-Type": forms.content_type()}
        return self.request("POST", "/files/upload", content=forms.encode(parts), headers=headers)

    def store(self, name: str = "note.txt", content: bytes = TEXT, *, context: str, metadata: Any = None) -> str:
        """Upload one file that must be accepted, and return its id."""
        return str(data(self.upload(name, content, context=context, metadata=metadata), 201)["file_id"])

    def with_store(self) -> "ApiClient":
        """Give the tenant a default bucket if the deployment has S3; otherwise the service's folder is used."""
        if self.service.deployment.gateway is not None:
            self.add_bucket(name="first")
        return self

    def add_bucket(self, **fields: Any) -> dict[str, Any]:
        """Add a bucket in the deployment's S3 and return it."""
        added: dict[str, Any] = data(self.post(self.buckets, self.bucket_body(**fields)), 201)
        return added

    def bucket_body(self, **fields: Any) -> dict[str, Any]:
        gateway = self.service.deployment.gateway
        assert gateway is not None, "only a setup with S3 adds buckets"
        own = {
            "name": f"bucket {next(_numbers)}",
            "access_key_id": gateway.access_key,
            "secret_access_key": gateway.secret_key,
            "region": gateway.region,
            "default_bucket": self.service.deployment.bucket,
            "base_path": self.tenant_id,
            "endpoint_url": gateway.endpoint,
        }
        return own | fields

    # read

    @property
    def buckets(self) -> str:
        return f"/tenants/{self.tenant_id}/storage-configs"

    def used_bytes(self, context: str) -> int:
        return int(data(self.get(f"/contexts/{context}"))["storage_used_bytes"])

    def object_keys(self) -> set[str]:
        """Return the keys of this tenant's stored objects, as listed by the store itself."""
        deployment = self.service.deployment
        if deployment.gateway is not None:
            pages = deployment.gateway.client.get_paginator("list_objects_v2").paginate(
                Bucket=deployment.bucket, Prefix=f"{self.tenant_id}/"
            )
            return {one["Key"] for page in pages for one in page.get("Contents", [])}
        folder = Path(deployment.settings.get("STORAGE_DIR", deployment.data_dir / "objects")) / "objects"
        return {
            str(Path(where, name).relative_to(folder))
            for where, _, names in os.walk(folder)  # has the files of all tenants of the session
            if f"/{self.tenant_id}/" in f"{where}/"
            for name in names
        }

    def overwrite_object(self, key: str, content: bytes) -> None:
        """Give a stored object another content behind the service's back, as the owner of a bucket can."""
        deployment = self.service.deployment
        if deployment.gateway is not None:
            deployment.gateway.client.put_object(Bucket=deployment.bucket, Key=key, Body=content)
        else:
            (deployment.data_dir / "objects" / "objects" / key).write_bytes(content)

    def decisions(self) -> list[dict[str, Any]]:
        """Return the tenant's rows of the decision log, oldest first, with JSON columns decoded."""

        async def read(database: Database) -> list[dict[str, Any]]:
            mine = select(decisions).where(decisions.c.tenant_id == self.tenant_id).order_by(decisions.c.report_id)
            async with database.reading(ALL_TENANTS) as connection:
                return [dict(row._mapping) for row in await connection.execute(mine)]

        return self.service.on_database(read)

    def execute_sql(self, statement: str, **values: Any) -> None:
        """Change a row directly in the database: tests use it to let time pass."""

        async def act(database: Database) -> None:
            async with database.transaction(ALL_TENANTS) as connection:
                # Bound as a column is: since 3.12, `sqlite3` warns of a bare `datetime`.
                moments = [bindparam(name, type_=Moment) for name in values if isinstance(values[name], datetime)]
                await connection.execute(text(statement).bindparams(*moments), values)

        self.service.on_database(act)

    def set_status(self, status: TenantStatus) -> None:
        async def act(database: Database) -> None:
            await Tenants(database).set_status(operator_action(self.tenant_id), status)

        self.service.on_database(act)
