"""The malformed requests of gunicorn's test suite, sent over a real socket."""

import pytest

from tests.attacks import files, needs_attacks, request_bytes
from tests.http1.sockets import exchange, statuses
from tests.rows import each_row
from tests.service import Service

REFUSED = {400, 431}
VALID_REQUESTS = {"006.http", "011.http", "012.http"}
"""Valid requests, malformed only under limits of gunicorn's own tests.

These are a target of 4 KB (RFC 9112 section 3 recommends 8,000 bytes), two fields, and a field of 98 bytes.
"""
INCOMPLETE_REQUESTS = {"001.http": [], "rfc9112_chunked_missing_final_crlf_01.http": [404]}
"""Incomplete requests: half a head gets no response; half a body may get an early one (RFC 9110 section 15.5)."""
MISSING_HOST = {"010.http", "019.http"}
"""Requests that are malformed only because they have no Host (RFC 9112 section 3.2)."""

REQUESTS = {source.rpartition("/")[2]: path for source, path in files("http").items()}

pytestmark = needs_attacks


@each_row("name", sorted(REQUESTS))
@pytest.mark.asvs("4.2.1")
def test_malformed_request_is_refused_once_and_the_connection_closed(sqlite_local: Service, name: str) -> None:
    request = request_bytes(REQUESTS[name])
    answered = statuses(exchange(sqlite_local, request))
    if name in INCOMPLETE_REQUESTS:
        assert answered == INCOMPLETE_REQUESTS[name]
    elif name in VALID_REQUESTS:
        assert answered == [404]
    else:
        assert len(answered) == 1
        assert set(answered) <= REFUSED
        if name not in MISSING_HOST and b"\r\nhost:" not in request.lower():  # refused for its own defect
            with_host = statuses(exchange(sqlite_local, request.replace(b"\r\n", b"\r\nHost: x\r\n", 1)))
            assert len(with_host) == 1
            assert set(with_host) <= REFUSED
