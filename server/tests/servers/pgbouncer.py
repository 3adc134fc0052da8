"""A temporary PgBouncer for tests, in transaction mode, in front of a temporary PostgreSQL."""

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.required import require
from tests.servers import daemon, free_port, listens
from tests.servers.postgres import ROLE, Postgres

_CONFIG = """
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {servers}
max_client_conn = 500
"""


@contextmanager
def running_pgbouncer(folder: Path, postgres: Postgres, *, servers: int) -> Iterator[int]:
    """Run one until the block ends and yield its port; skip the test when it is not installed.

    `servers` is the number of its connections to each database.
    """
    require("PgBouncer", "pgbouncer", apt="pgbouncer")
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    home = Path(tempfile.mkdtemp(prefix="sluice-test-pgbouncer-"))  # the user `postgres` cannot enter pytest's folders
    try:
        (home / "pgbouncer.ini").write_text(
            _CONFIG.format(server_port=postgres.port, port=port, folder=home, servers=servers)
        )
        (home / "users").write_text(f'"postgres" ""\n"{ROLE}" ""\n')
        as_user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
        if as_user:
            owner = pwd.getpwnam(as_user)
            for path in (home, *home.iterdir()):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        command = ["pgbouncer", str(home / "pgbouncer.ini")]
        with daemon(command, folder / "pgbouncer.log", ready=lambda: listens(port), as_user=as_user):
            yield port
    finally:
        shutil.rmtree(home, ignore_errors=True)
