"""A temporary PostgreSQL server for tests, without a schema."""

import os
import pwd
import secrets
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.required import missing
from tests.servers import daemon, free_port, listens, run

ROLE: Final = "sluice_service"
"""The role of a service with two roles; only migrations grant anything to it."""

# Fast and not durable: the data lives as long as one test run.
_OPERATED = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "autovacuum": "on"}
_OPTIONS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
    "max_connections": "1000",
    "jit": "off",
    "autovacuum": "off",  # its statistics would decide between indexes of the same cost, at a time of its own
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}


@dataclass(frozen=True)
class Postgres:
    """A running server; its superuser `postgres` has no password."""

    port: int
    programs: Path

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of the maintenance database. Tests create a database of their own with `createdb()`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the SQLAlchemy URL of one database."""
        return f"postgresql+asyncpg://postgres@127.0.0.1:{self.port}/{database}"

    def createdb(self, *, template: str = "template0") -> str:
        """Create a database, a copy of `template` (about 75 ms), and return its URL.

        Its name is the last part of the URL. Nothing may be connected to the template while it is copied.
        """
        name = f"test_{secrets.token_hex(6)}"
        self.psql(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url_of(name)

    def for_service(self, url: str) -> str:
        """Return the URL of the same database for `ROLE`, which owns nothing in it and is created if missing."""
        create = f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN CREATE ROLE {ROLE} LOGIN; END IF"
        self.psql(f"DO $$ BEGIN {create}; END $$")
        return url.replace("//postgres@", f"//{ROLE}@")

    def dump(self, url: str) -> bytes:
        """Return the output of `pg_dump` for one database, run as its owner."""
        name = url.rpartition("/")[2]
        return run(
            [str(self.programs / "pg_dump"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name]
        ).encode()

    def psql(self, statement: str, *, database: str = "postgres") -> str:
        """Run one statement and return its rows as text, one per line, with columns separated by `|`."""
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database]
        return run(
            [str(self.programs / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c", statement]
        )


@contextmanager
def running_postgres(
    folder: Path,
    *,
    port: int | None = None,
    identity: tuple[bytes, bytes] | None = None,
    trusted: bytes | None = None,
    as_operated: bool = False,
) -> Iterator[Postgres]:
    """Run a server with its log in `folder` until the block ends; skip the test when PostgreSQL is not installed.

    With an `identity` (certificate and private key, PEM) it offers TLS. With a `trusted` certificate, `ROLE` can log in
    only with that certificate or one signed by it. The data are in `folder` too, except under root: initdb refuses
    root, and the user `postgres` cannot enter pytest's folders. Commits reach the disk, and rows are vacuumed, only if
    it runs `as_operated`.
    """
    programs = programs_of()
    folder.mkdir(parents=True, exist_ok=True)
    with _data_folder(folder) as data:
        as_user = "postgres" if os.geteuid() == 0 else None
        drop = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--init-groups"] if as_user else []
        make = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        run([*drop, str(programs / "initdb"), "-D", str(data), *make])
        server = Postgres(port or free_port(), programs)
        settings = {**_OPTIONS, **(_OPERATED if as_operated else {})}
        if identity is not None:
            settings |= _tls(data, identity, as_user)
        if trusted is not None:
            settings |= _certificates(data, trusted)
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(server.port), *options]
        # SIGQUIT is the immediate shutdown, without a checkpoint.
        with daemon(
            command, folder / "postgres.log", ready=lambda: _is_ready(server), as_user=as_user, stop_with=signal.SIGQUIT
        ):
            yield server


def _tls(data: Path, identity: tuple[bytes, bytes], as_user: str | None) -> dict[str, str]:
    paths = {"ssl_cert_file": data / "server.crt", "ssl_key_file": data / "server.key"}
    for path, content in zip(paths.values(), identity, strict=True):
        path.write_bytes(content)
        path.chmod(0o600)  # PostgreSQL refuses a key that others can read
        if as_user:
            os.chown(path, pwd.getpwnam(as_user).pw_uid, -1)
    return {"ssl": "on", **{name: str(path) for name, path in paths.items()}}


def _certificates(data: Path, trusted: bytes) -> dict[str, str]:
    authority, rules = data / "root.crt", data / "certificates.conf"
    authority.write_bytes(trusted)
    rules.write_text(f"hostssl all {ROLE} 127.0.0.1/32 cert\nhost all postgres 127.0.0.1/32 trust\n")
    for path in (authority, rules):
        path.chmod(0o644)  # the server may run as another user
    return {"ssl_ca_file": str(authority), "hba_file": str(rules)}


def programs_of() -> Path:
    """Return the folder with the programs of the newest installed server; Debian keeps them off PATH."""
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if versions:
        return max(versions, key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    if found is None:
        missing("PostgreSQL", apt="postgresql")
    return Path(str(found)).resolve().parent


@contextmanager
def _data_folder(folder: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        yield folder / "data"
        return
    owner = pwd.getpwnam("postgres")
    home = Path(tempfile.mkdtemp(prefix="sluice-test-postgres-"))
    try:
        os.chown(home, owner.pw_uid, owner.pw_gid)
        yield home / "data"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _is_ready(server: Postgres) -> bool:
    if not listens(server.port):  # cheaper than starting psql
        return False
    try:
        return server.psql("SELECT 1").strip() == "1"
    except RuntimeError:
        return False
