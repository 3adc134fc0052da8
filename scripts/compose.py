"""Run the Compose files as a whole, without a Docker engine: `python scripts/compose.py PODMAN_COMPOSE`.

`deploy/compose/compose.yaml`, then the same with `compose.s3.yaml`, unchanged, by podman-compose with the image of
`make image`: all services become healthy, a file is accepted by a scan of clamd, EICAR is refused, and after a restart
the file downloads with the same bytes. An image that the files name and that this machine does not have is replaced by
one of the same name, made of Debian packages: PostgreSQL, ClamAV with the signature of EICAR alone, and, as Debian has
no Garage, the gateway of Ceph. Skipped by name where the tools are missing.
"""

import contextlib
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from containers import (
    EICAR,
    READY_SECONDS,
    ROOT,
    Service,
    bases,
    build,
    make_debian,
    missing_tools,
    run,
    tools_environment,
)

FOLDER: Final = ROOT / "deploy" / "compose"
ADDRESS: Final = "127.0.0.18"  # of its own: another server of this machine may have port 8000
CONTENT: Final = b"Hello, Sluice! " * 100_000
_POSTGRES: Final = """\
set -eu
data=/var/lib/postgresql/data
bin=$(ls -d /usr/lib/postgresql/*/bin)
as="setpriv --reuid postgres --regid postgres --clear-groups"
install -d -o postgres -g postgres -m 0700 $data
install -d -o postgres -g postgres /run/postgresql
if [ ! -s $data/PG_VERSION ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  $as $bin/initdb -D $data -U "$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
  echo "host all all all scram-sha-256" >>$data/pg_hba.conf
  $as $bin/pg_ctl -D $data -w -o "-c listen_addresses=" start
  $as $bin/createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
  $as $bin/pg_ctl -D $data -w stop
fi
exec $as $bin/postgres -D $data -c listen_addresses='*'
"""
_CLAMD: Final = f"""\
set -eu
install -d -o clamav -g clamav /var/lib/clamav
[ -e /var/lib/clamav/eicar.ndb ] || echo 'Eicar-Test-Signature:0:*:{EICAR.hex()}' >/var/lib/clamav/eicar.ndb
printf '%s\\n' 'Foreground yes' 'User clamav' 'TCPSocket 3310' >/tmp/clamd.conf
exec clamd --config-file=/tmp/clamd.conf
"""
# A monitor, a storage daemon with its objects in a file, and the gateway, as one user that may do everything.
_CEPH: Final = """\
set -eu
D=/var/lib/garage
export CEPH_CONF=$D/ceph.conf
mkdir -p $D/run
[ -e $D/fsid ] || cat /proc/sys/kernel/random/uuid >$D/fsid
cat >$CEPH_CONF <<END
[global]
fsid = $(cat $D/fsid)
mon host = [v2:127.0.0.1:16789/0]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
keyring = $D/keyring
run dir = $D/run
admin socket =
log file =
log to stderr = true
crash dir = $D/run
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
[mon.a]
mon data = $D/mon
mon initial members = a
[osd.0]
osd data = $D/osd
osd objectstore = bluestore
bluestore block size = 4294967296
bluestore fsck on mount = false
osd memory target = 939524096
osd class load list = *
osd class default list = *
[client.rgw]
rgw frontends = beast endpoint=0.0.0.0:3900
rgw enable usage log = false
rgw dns name =
END
is_new=no
if [ ! -e $D/made ]; then
  is_new=yes
  ceph-authtool --create-keyring $D/keyring --gen-key -n mon. --cap mon 'allow *'
  ceph-authtool $D/keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  ceph-authtool $D/keyring --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *'
  ceph-authtool $D/keyring --gen-key -n client.rgw --cap mon 'allow rw' --cap osd 'allow rwx'
  monmaptool --create --clobber --fsid $(cat $D/fsid) --addv a '[v2:127.0.0.1:16789/0]' $D/monmap
  mkdir -p $D/mon $D/osd
  ceph-mon -i a --mkfs --monmap $D/monmap --keyring $D/keyring
fi
ceph-mon -i a -f &
if [ $is_new = yes ]; then
  ceph osd new $(cat $D/fsid)
  ceph-osd -i 0 --mkfs --osd-uuid $(cat $D/fsid)
  ceph osd crush add osd.0 1 root=default host=here
fi
ceph-osd -i 0 -f &
if [ $is_new = yes ]; then
  touch $D/made
fi
exec radosgw -n client.rgw -f
"""
STAND_INS: Final[Mapping[str, tuple[str, str]]] = {
    "docker.io/library/postgres:17": ("postgresql", _POSTGRES),
    "docker.io/clamav/clamav:1.4": ("clamav-daemon", _CLAMD),
    "docker.io/dxflrs/garage:v1.0.1": ("radosgw,ceph-mon,ceph-osd,ceph-common", _CEPH),
}


def main() -> int:
    """Run both forms; return the exit code."""
    if missing := missing_tools("netavark", "aardvark-dns"):
        print(f"skipped: the Compose files need {', '.join(missing)} (Debian packages of these names)")
        return 0
    environment = dict(tools_environment())
    build("localhost/sluice-full", bases(environment), environment, media=True)
    for name, (packages, script) in STAND_INS.items():
        if subprocess.run(["podman", "image", "exists", name], env=environment, check=False).returncode:
            make_debian(name, packages, environment, script=script)
            print(f"{name}: made of {packages} of Debian")
    environment |= {
        "IMAGE": "localhost/sluice-full:latest",
        "BIND_ADDRESS": ADDRESS,
        "POSTGRES_PASSWORD": secrets.token_hex(24),
        "GARAGE_RPC_SECRET": secrets.token_hex(32),
        "SLUICE_STORAGE_ACCESS_KEY_ID": f"GK{secrets.token_hex(12)}",
        "SLUICE_STORAGE_SECRET_ACCESS_KEY": secrets.token_hex(32),
    }
    for number, files in enumerate((("compose.yaml",), ("compose.yaml", "compose.s3.yaml"))):
        _show(files, environment | {"COMPOSE_PROJECT_NAME": f"sluice-proof-{os.getpid()}-{number}"})
    return 0


def _show(files: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start the services, use them, replace them, and remove them. Raise `SystemExit` that says what is wrong."""
    options = [word for file in files for word in ("--file", str(FOLDER / file))]

    def compose(*words: str, is_required: bool = True) -> str:
        return run(sys.argv[1], *options, *words, environment=environment, is_required=is_required)

    with _health_checks(environment):
        try:
            began = time.monotonic()
            if "compose.s3.yaml" in files:
                compose("up", "--detach", "garage")
                _make_bucket(compose, environment)
            compose("up", "--detach")
            service = Service(_first_key(compose), f"http://{ADDRESS}:8000")
            service.create_context()
            first = _first_upload(service)
            seconds = time.monotonic() - began
            service.require_refused_virus()
            compose("down")
            compose("up", "--detach")
            _first_key(compose)
            second = _first_upload(service)
            for file_id in (first, second):
                service.require_kept(file_id, CONTENT)
        except BaseException:
            print(compose("logs", is_required=False)[-8000:], file=sys.stderr)
            raise
        finally:
            compose("down", "--volumes", is_required=False)
            for part in ("data", "database", "objects", "signatures"):
                volume = f"{environment['COMPOSE_PROJECT_NAME']}_{part}"
                run("podman", "volume", "rm", "--force", volume, environment=environment, is_required=False)
    print(
        f"{' and '.join(files)}: first upload accepted after {seconds:.0f} s, EICAR refused by clamd, "
        "after `down` and `up` another accepted, both download with the same bytes"
    )


def _first_key(compose: Callable[..., str]) -> str:
    """Return the first key as soon as the service answers, read as compose.yaml says."""
    command = "sluice health >/dev/null && cat /data/keys/first-key"
    words = ("exec", "-T", "sluice", "sh", "-c", command)
    return _until("the service does not become healthy", lambda: compose(*words, is_required=False).strip())


def _first_upload(service: Service) -> str:
    """Return the id of a file that is accepted as soon as clamd answers."""
    return _until("no upload is accepted", lambda: _accepted(service))


def _accepted(service: Service) -> str:
    try:
        return service.accepted(CONTENT)
    except SystemExit as fault:
        print(str(fault)[:200], file=sys.stderr)
        return ""


def _until(sentence: str, step: Callable[[], str]) -> str:
    """Repeat a step until it returns something. Raise `SystemExit` with the sentence if it takes too long."""
    began = time.monotonic()
    while not (found := step()):
        if time.monotonic() - began > READY_SECONDS:
            raise SystemExit(sentence)
        time.sleep(1)
    return found


def _make_bucket(compose: Callable[..., str], environment: Mapping[str, str]) -> None:
    """Make the bucket and its key in the gateway of Ceph, as `compose.s3.yaml` has it done in Garage."""
    key, secret = environment["SLUICE_STORAGE_ACCESS_KEY_ID"], environment["SLUICE_STORAGE_SECRET_ACCESS_KEY"]
    user = f"--uid=sluice --display-name=sluice --access-key={key} --secret-key={secret}"
    create = f"CEPH_CONF=/var/lib/garage/ceph.conf radosgw-admin user create {user}"
    _until("there is no key", lambda: compose("exec", "-T", "garage", "sh", "-c", create, is_required=False))
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://{ADDRESS}:3900",
        region_name="garage",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(s3={"addressing_style": "path"}),
    )

    def made() -> str:
        with contextlib.suppress(BotoCoreError, ClientError):
            client.create_bucket(Bucket="sluice")
            return "made"
        return ""

    _until("there is no bucket", made)


@contextmanager
def _health_checks(environment: Mapping[str, str]) -> Iterator[None]:
    """Call the health checks of all containers, as systemd would, until the block ends."""
    ended = threading.Event()

    def check() -> None:
        while not ended.wait(5):
            for name in run("podman", "ps", "--quiet", environment=environment, is_required=False).split():
                run("podman", "healthcheck", "run", name, environment=environment, is_required=False)

    thread = threading.Thread(target=check)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
