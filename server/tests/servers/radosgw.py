"""A Ceph Object Gateway on one machine for tests: a real S3 with signatures, conditional puts and multipart uploads."""

import os
import secrets
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.required import require
from tests.servers import daemon, free_port, listens, run

_CONFIG = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{mon_port}/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = {folder}/keyring
run dir = {folder}/run
admin socket =
log file =
log to stderr = true
crash dir = {folder}/run
pid file =
setuser match path =
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
osd crush chooseleaf type = 0
mon data avail warn = 1
mon data avail crit = 1
paxos propose interval = 0.05
paxos min wait = 0.01
mon max pg per osd = 2000
mon pg warn min per osd = 0
ms bind msgr1 = false
ms bind port min = 16800
ms bind port max = 26800
[mon.a]
mon data = {folder}/mon
mon initial members = a
[osd.0]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 8589934592
osd class load list = *
osd class default list = *
osd scrub load threshold = 2000
osd max object name len = 2048
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw enable usage log = false
rgw enable ops log = false
rgw thread pool size = 64
rgw gc max objs = 4
rgw lc max objs = 4
rgw num zone opstate shards = 4
rgw override bucket index max shards = 1
rgw dynamic resharding = false
rgw run sync thread = false
rgw dns name =
"""


@dataclass(frozen=True)
class RadosGateway:
    """A running gateway and the credentials of its one user."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"

    @property
    def client(self) -> Any:
        """botocore's client of S3, which is untyped."""
        return _client_of(self)

    def create_bucket(self, name: str) -> str:
        """Create a bucket with a name of 3 to 63 characters and return the name."""
        self.client.create_bucket(Bucket=name)
        return name

    def fresh_bucket(self) -> str:
        """Create a bucket that no other test uses and return its name."""
        return self.create_bucket(f"test-{secrets.token_hex(8)}")

    def keys(self, bucket: str) -> list[str]:
        """Return the keys of the objects in a bucket (at most 1,000), in order."""
        return [found["Key"] for found in self.client.list_objects_v2(Bucket=bucket).get("Contents", [])]

    def unfinished_uploads(self, bucket: str) -> list[str]:
        """Return the keys of all multipart uploads that were neither completed nor aborted."""
        return [found["Key"] for found in self.client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])]


@contextmanager
def running_radosgw(folder: Path) -> Iterator[RadosGateway]:
    """Run monitor, storage daemon (objects in memory) and gateway until the block ends; 2 to 6 s to start.

    Skips the test when they are not installed.
    """
    programs = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin", "setpriv")
    require("Ceph Object Gateway", *programs, apt="radosgw ceph-mon ceph-osd ceph-common")
    mon_port, port = free_port(), free_port()
    for part in ("mon", "osd", "run"):
        (folder / part).mkdir(parents=True)
    environment = {**os.environ, "CEPH_CONF": str(folder / "ceph.conf")}
    fsid = str(uuid.uuid4())
    (folder / "ceph.conf").write_text(_CONFIG.format(fsid=fsid, mon_port=mon_port, port=port, folder=folder))
    _make_keys_and_map(folder, fsid, mon_port, environment)
    with ExitStack() as daemons:
        _start_monitor(daemons, folder, environment)
        _start_osd(daemons, folder, environment)
        command = ["radosgw", "-n", "client.rgw", "-f"]
        daemons.enter_context(daemon(command, folder / "rgw.log", ready=lambda: listens(port), environment=environment))
        yield _with_user(f"http://127.0.0.1:{port}", environment)


def _make_keys_and_map(folder: Path, fsid: str, mon_port: int, environment: dict[str, str]) -> None:
    keyring = str(folder / "keyring")
    owners = {
        "mon.": ["--cap", "mon", "allow *"],
        "client.admin": ["--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *"],
        "osd.0": ["--cap", "mon", "allow profile osd", "--cap", "osd", "allow *"],
        "client.rgw": ["--cap", "mon", "allow rw", "--cap", "osd", "allow rwx"],
    }
    for number, (owner, capabilities) in enumerate(owners.items()):
        create = [] if number else ["--create-keyring"]
        run(["ceph-authtool", *create, keyring, "--gen-key", "-n", owner, *capabilities], environment=environment)
    address = f"[v2:127.0.0.1:{mon_port}/0]"
    run(["monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", address, str(folder / "monmap")])


def _start_monitor(daemons: ExitStack, folder: Path, environment: dict[str, str]) -> None:
    files = ["--monmap", str(folder / "monmap"), "--keyring", str(folder / "keyring")]
    run(["ceph-mon", "-i", "a", "--mkfs", *files], environment=environment)

    def in_quorum() -> bool:
        return _succeeds(["ceph", "-s", "--connect-timeout", "5"], environment) is not None

    daemons.enter_context(
        daemon(["ceph-mon", "-i", "a", "-f"], folder / "mon.log", ready=in_quorum, environment=environment)
    )


def _start_osd(daemons: ExitStack, folder: Path, environment: dict[str, str]) -> None:
    identity = str(uuid.uuid4())
    run(["ceph", "osd", "new", identity], environment=environment)
    run(["ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity], environment=environment)
    run(["ceph", "osd", "crush", "add", "osd.0", "1.0", "root=default", "host=localhost"], environment=environment)

    def is_up() -> bool:
        return "1 up" in (_succeeds(["ceph", "osd", "stat"], environment) or "")

    daemons.enter_context(
        daemon(["ceph-osd", "-i", "0", "-f"], folder / "osd.log", ready=is_up, environment=environment)
    )


def _with_user(endpoint: str, environment: dict[str, str]) -> RadosGateway:
    access_key, secret_key = f"TEST{secrets.token_hex(8).upper()}", secrets.token_hex(20)
    options = ["--uid=test", "--display-name=test", f"--access-key={access_key}", f"--secret-key={secret_key}"]
    run(["radosgw-admin", "-n", "client.rgw", "user", "create", *options], environment=environment)
    return RadosGateway(endpoint, access_key, secret_key)


@cache
def _client_of(gateway: RadosGateway) -> Any:
    import botocore.config  # noqa: PLC0415  (loaded in 0.3 s, which collection need not take)
    import botocore.session  # noqa: PLC0415

    return botocore.session.Session().create_client(
        "s3",
        region_name=gateway.region,
        endpoint_url=gateway.endpoint,
        aws_access_key_id=gateway.access_key,
        aws_secret_access_key=gateway.secret_key,
        config=botocore.config.Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
    )


def _succeeds(command: list[str], environment: dict[str, str]) -> str | None:
    try:
        return run(command, environment=environment)
    except RuntimeError:
        return None
