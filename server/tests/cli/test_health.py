"""`sluice health`: the state of a running server, for health checks of containers."""

from tests.cli.commands import Sluice
from tests.servers import free_port


def test_health_prints_the_state_of_a_running_server(sluice: Sluice) -> None:
    with sluice.running() as server:
        port = server.url.rpartition(":")[2]
        result = sluice.with_settings(PORT=port)("health")
        assert (result.code, result.out) == (0, "degraded\n")
        assert sluice.with_settings(PORT=port, HOST="0.0.0.0")("health").code == 0


def test_health_fails_when_nothing_responds_and_for_a_worker_without_a_port(sluice: Sluice) -> None:
    port = free_port()
    result = sluice.with_settings(PORT=str(port))("health")
    assert (result.code, result.error_line) == (6, f"No service responds at 127.0.0.1:{port}.")
    assert not sluice.data_dir.exists()
    result = sluice("health", "--worker")
    assert result.code == 2
    assert "SLUICE_WORKER_PORT" in result.error_line
