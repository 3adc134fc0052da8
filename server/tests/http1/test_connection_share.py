"""Places for connections: a share for each address, and who gives way when all places are taken."""

import contextlib
import os
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest

from sluice.api.http1.connection_table import share_of
from sluice.cli.listening import server_config
from sluice.settings import Settings
from tests.api.responses import check_response, data
from tests.deployments import Deployments
from tests.http1.sockets import narrow_connection, read_status, read_until_closed, statuses
from tests.observe.metrics_page import read_metrics, until
from tests.rows import each_row
from tests.service import Service, running_service

CONNECTIONS = 24
SHARE = CONNECTIONS // 2
STATES = ("silent", "busy")
HALF_HEAD = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"
LIVE = HALF_HEAD + b"\r\n"
FIRST, SECOND, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"


@contextlib.contextmanager
def connected_from(address: str, service: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=20, source_address=(address, 0)) as sock:
        yield sock


def is_open(sock: socket.socket) -> bool:
    return not select.select([sock], [], [], 0)[0]


@pytest.fixture(scope="module")
def server(deployments: Deployments) -> Iterator[Service]:
    with running_service(deployments.fresh("sqlite-local"), CONNECTIONS=str(CONNECTIONS)) as service:
        yield service


@pytest.fixture
def service(server: Service) -> Iterator[Service]:
    """The server without connections, and a client of its own for each test, which may close it."""
    server.http.close()

    def connections() -> float:
        return sum(read_metrics(server.url)("sluice_connections", state=state) for state in STATES)

    until(connections, lambda number: number <= 1)  # that of the question itself
    with httpx.Client(base_url=server.url, timeout=60, event_hooks={"response": [check_response]}) as http:
        yield replace(server, http=http)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def open_silent(stack: ExitStack, service: Service, address: str, count: int) -> list[socket.socket]:
    """Open connections one after the other, each with half a head, and wait until the server has accepted them."""
    opened = []
    for _ in range(count):
        sock = stack.enter_context(connected_from(address, service))
        sock.sendall(HALF_HEAD)
        opened.append(sock)
    return opened


def unfinished_post(authorization: str | None = None) -> bytes:
    """Return a request whose body never ends."""
    credential = "" if authorization is None else f"Authorization: {authorization}\r\n"
    lines = f"Host: x\r\n{credential}Content-Type: application/json\r\nContent-Length: 10\r\n\r\n"
    return f"POST /api/v1/contexts HTTP/1.1\r\n{lines}{{".encode()


def is_live(service: Service, address: str = THIRD) -> bool:
    """Return whether the server responds to another address."""
    with connected_from(address, service) as other:
        other.sendall(LIVE)
        return read_status(other) == 200


@pytest.mark.asvs("2.4.1", "15.2.2")
def test_connections_of_one_address_leave_places_for_others(service: Service, stack: ExitStack) -> None:
    taken = open_silent(stack, service, FIRST, CONNECTIONS)
    refused = [statuses(read_until_closed(sock)) for sock in taken[SHARE:]]
    assert refused == [[503]] * (CONNECTIONS - SHARE)
    assert is_live(service, SECOND)
    assert all(is_open(sock) for sock in taken[:SHARE])


def test_closed_connections_give_their_share_back(service: Service, stack: ExitStack) -> None:
    for sock in open_silent(stack, service, FIRST, SHARE):
        sock.close()
    until(lambda: read_metrics(service.url)("sluice_connections", state="silent"), lambda silent: silent <= 1)
    assert is_live(service, FIRST)


@pytest.mark.asvs("15.2.2")
def test_downloads_by_link_leave_places_for_the_keys_of_their_tenant(service: Service, stack: ExitStack) -> None:
    client = service.new_client()
    file_id = client.store("a.bin", os.urandom(4_000_000), context=client.create_context())
    link = urlsplit(data(client.get(f"/files/{file_id}"))["download_url"])
    request = f"GET {link.path}?{link.query} HTTP/1.1\r\nHost: {link.netloc}\r\n\r\n".encode()
    responses = []
    for _ in range(SHARE):
        reader = stack.enter_context(connected_from(FIRST, service))
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(request)
        responses.append(statuses(reader.recv(64)))
    assert responses == [[200]] * (SHARE // 4) + [[429]] * (SHARE - SHARE // 4)
    assert client.get("/files").status_code == 200


@pytest.mark.asvs("15.2.2")
def test_oldest_half_head_gives_way_when_all_places_are_taken(service: Service, stack: ExitStack) -> None:
    taken = open_silent(stack, service, FIRST, SHARE) + open_silent(stack, service, SECOND, SHARE)
    with connected_from(THIRD, service) as other:
        other.sendall(LIVE)
        assert read_status(other) == 200
        assert statuses(read_until_closed(taken[0])) == [408]
        assert all(is_open(sock) for sock in taken[1:])


def test_idle_connection_gives_way_without_a_response(service: Service, stack: ExitStack) -> None:
    with connected_from(THIRD, service) as idle:
        idle.sendall(LIVE)
        assert read_status(idle) == 200
        open_silent(stack, service, FIRST, SHARE)
        open_silent(stack, service, SECOND, SHARE)
        assert read_until_closed(idle) == b""


def test_connection_with_a_request_under_way_never_gives_way(service: Service, stack: ExitStack) -> None:
    counts = [12, 6, 3, 1, 1, 1]  # half of what the tenants before leave, at least one
    clients = [service.new_client() for _ in counts]
    service.http.close()
    busy: list[socket.socket] = []
    for client, count in zip(clients, counts, strict=True):
        for _ in range(count):
            sock = stack.enter_context(connected_from((FIRST, SECOND)[len(busy) % 2], service))
            sock.sendall(unfinished_post(client.authorization))
            select.select([sock], [], [], 0.05)
            busy.append(sock)
    with connected_from(THIRD, service) as other:
        assert statuses(read_until_closed(other)) == [503]
    assert all(is_open(sock) for sock in busy)


@pytest.mark.asvs("15.2.2")
@pytest.mark.parametrize("case", ["its body never ends", "it has not read the response"])
def test_answered_connection_without_a_credential_gives_way_although(
    service: Service, stack: ExitStack, case: str
) -> None:
    service.http.close()
    for address in (FIRST, SECOND):
        for _ in range(SHARE):
            if case == "its body never ends":
                sock = stack.enter_context(connected_from(address, service))
                sock.sendall(unfinished_post())
                assert read_status(sock) == 401
            else:
                sock = stack.enter_context(narrow_connection(service, address))
                sock.sendall(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: x\r\n\r\n")
                assert sock.recv(1)
    assert is_live(service)


@pytest.mark.asvs("15.2.2")
def test_requests_of_one_tenant_and_of_two_together_leave_places_for_others(service: Service, stack: ExitStack) -> None:
    first, second, third = (service.new_client().authorization for _ in range(3))
    service.http.close()
    for tenant, (credential, most) in enumerate(((first, SHARE), (second, SHARE // 2))):
        for number in range(2 * most):
            sock = stack.enter_context(connected_from(f"127.0.{3 + tenant}.{1 + number}", service))
            sock.sendall(unfinished_post(credential))
            if number < most:
                select.select([sock], [], [], 0.05)
            else:
                assert read_status(sock) == 429
        assert is_live(service)
    with connected_from(THIRD, service) as other:
        other.sendall(f"GET /api/v1/contexts HTTP/1.1\r\nHost: x\r\nAuthorization: {third}\r\n\r\n".encode())
        assert read_status(other) == 200


def test_flood_of_half_heads_does_not_keep_others_out(service: Service, stack: ExitStack) -> None:
    for number in range(4 * CONNECTIONS):
        open_silent(stack, service, f"127.0.2.{1 + number}", 1)
        assert number % 8 or is_live(service)
    assert read_metrics(service.url)("sluice_connections_cut_off_total", why="gave_way") > 0


@pytest.mark.asvs("15.3.4")
def test_share_does_not_apply_to_a_trusted_proxy(deployments: Deployments, stack: ExitStack) -> None:
    settings = {"CONNECTIONS": str(CONNECTIONS), "TRUSTED_PROXIES": "127.0.0.2,127.0.9.0/24"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        for address in (FIRST, "127.0.9.1"):
            with ExitStack() as proxied:
                taken = open_silent(proxied, service, address, SHARE + 4)
                assert is_live(service)
                assert all(is_open(sock) for sock in taken)


def test_share_can_be_set(deployments: Deployments, stack: ExitStack) -> None:
    with running_service(deployments.fresh("sqlite-local"), CONNECTIONS_PER_ADDRESS="3") as service:
        taken = open_silent(stack, service, FIRST, 4)
        assert statuses(read_until_closed(taken[3])) == [503]


@each_row(
    "address, share",
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", None),
    ],
)
def test_addresses_of_one_network_share_their_connections(address: str, share: str | None) -> None:
    assert share_of(address) == share


def test_idle_connection_is_kept_longer_than_clients_and_proxies_keep_theirs() -> None:
    assert server_config(None, Settings()).timeout_keep_alive > 60
