"""The primary of three PostgreSQL nodes under Patroni is killed while clients upload: nothing acknowledged is lost, and the servers find the next one."""

import time
from pathlib import Path

import pytest

from tests.gate import Place, running_service
from tests.load import hold, uploading
from tests.recovery.auditing import audited
from tests.scanning.waiting import until
from tests.servers.patroni import LEASE_SECONDS, running_cluster

SETTINGS = {
    "DATABASE_WAIT_SECONDS": "3",
    "DATABASE_CONNECT_SECONDS": "3",
    "DATABASE_STATEMENT_SECONDS": "5",
    "UPLOAD_LEASE_SECONDS": "20",
    "PURGE_AFTER_DAYS": "0",
    "UPLOADS_PER_TENANT": "16",
}


@pytest.mark.timeout(900)
def test_no_acknowledged_upload_is_lost_with_the_primary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running_cluster(tmp_path / "patroni") as cluster:
        assert until(cluster.is_whole, 90), cluster.members()
        with running_service(Place("patroni", tmp_path, cluster.url("postgres"), {"SCANNER": "builtin"}), **SETTINGS) as service:
            gate = service.new_gate()
            context = gate.context()
            with uploading(gate, context) as load:
                held = len(load.kept)
                assert until(lambda: len(load.kept) >= held + 50, 120)
                primary = cluster.primary()
                assert primary is not None
                killed = time.monotonic()
                primary.kill()
                before = len(load.kept)
                # the first acknowledgement after a pause: what was on its way when the primary died may still be answered
                assert until(
                    lambda: load.is_served_again(killed + LEASE_SECONDS / 4) and cluster.primary() not in {None, primary}, 180
                )
                again = load.last_kept - killed
                assert until(lambda: len(load.kept) >= before + 50, 120)
            assert (load.odd, load.broken) == ([], 0)
            hold(gate, load)
            assert until(lambda: audited(service, "--strict").code == 0, 120)
            told = ", ".join(f"{count} x {status}" for status, count in sorted(load.statuses.items()))
            with capsys.disabled():
                words = f"acknowledged again {again:.0f} s after the kill, longest answer {load.longest:.1f} s"
                print(f"\n{told}; {words}; 0 of {len(load.kept)} acknowledged uploads lost")  # noqa: T201
