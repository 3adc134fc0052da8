"""The primary of three PostgreSQL nodes under Patroni is killed while clients upload; no acknowledged file is lost."""

import time
from pathlib import Path

import pytest

from tests.load import assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.scanning.waiting import until
from tests.servers.patroni import LEASE_SECONDS, running_cluster
from tests.service import Deployment, running_service

WAITS = {"DATABASE_WAIT_SECONDS": "3", "DATABASE_CONNECT_SECONDS": "3", "DATABASE_STATEMENT_SECONDS": "5"}
SETTINGS = WAITS | {"UPLOAD_LEASE_SECONDS": "20", "PURGE_AFTER_DAYS": "0", "UPLOADS_PER_TENANT": "16"}


@pytest.mark.timeout(900)
def test_no_acknowledged_upload_is_lost_with_the_primary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_cluster(tmp_path / "patroni") as cluster:
        assert until(cluster.is_whole, 90), cluster.members()
        deployment = Deployment("patroni", tmp_path, cluster.url("postgres"), {"SCANNER": "builtin"})
        with running_service(deployment, **SETTINGS) as service:
            client = service.new_client()
            context = client.create_context()
            with uploading_clients(client, context) as load:
                held = len(load.stored)
                assert until(lambda: len(load.stored) >= held + 50, 120)
                primary = cluster.primary()
                assert primary is not None
                killed = time.monotonic()
                primary.kill()
                before = len(load.stored)

                def goes_on() -> bool:
                    """Whether one came after a pause: requests in progress at the kill may still be answered."""
                    resumed = load.has_stored_since(killed + LEASE_SECONDS / 4)
                    return resumed and cluster.primary() not in {None, primary}

                assert until(goes_on, 180)
                again = load.last_stored - killed
                assert until(lambda: len(load.stored) >= before + 50, 120)
            assert (load.unexpected, load.broken_connections) == ([], 0)
            assert_downloadable(client, load)
            assert until(lambda: run_audit(service, "--strict").code == 0, 120)
            statuses = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items()))
            with capsys.disabled():
                words = f"acknowledged again {again:.0f} s after the kill, longest response {load.longest_wait:.1f} s"
                print(f"\n{statuses}; {words}; 0 of {len(load.stored)} acknowledged uploads lost")  # noqa: T201
