"""Malformed requests that others collected (gunicorn's): what the server makes of each, over a real socket."""

import pytest

from tests.attacks import beside, files, request_bytes
from tests.edge.plugs import exchange, statuses
from tests.gate import Service

REFUSED = {400, 431}
WHOLE_REQUESTS = {"006.http", "011.http", "012.http"}
"""Valid requests, malformed only under limits that gunicorn's own test sets: a target of 4 KB (RFC 9112 section 3 recommends to take
8,000 bytes), two fields, a field of 98 bytes."""
NEVER_WHOLE = {"001.http": [], "rfc9112_chunked_missing_final_crlf_01.http": [404]}
"""Cut off before their end: nothing is answered to half a head; half a body may be answered early (RFC 9110 section 15.5)."""
WRONG_WITHOUT_HOST = {"010.http", "019.http"}
"""Wrong for want of a Host alone (RFC 9112 section 3.2)."""

REQUESTS = {source.rpartition("/")[2]: path for source, path in files("http").items()}

pytestmark = beside


@pytest.mark.parametrize("name", sorted(REQUESTS))
@pytest.mark.asvs("4.2.1")
def test_a_malformed_request_is_refused_once_and_the_connection_closed(sqlite_local: Service, name: str) -> None:
    answered = statuses(exchange(sqlite_local, request_bytes(REQUESTS[name])))
    if name in NEVER_WHOLE:
        assert answered == NEVER_WHOLE[name]
    elif name in WHOLE_REQUESTS:
        assert answered == [404]
    else:
        assert len(answered) == 1
        assert set(answered) <= REFUSED


@pytest.mark.parametrize("name", sorted(REQUESTS.keys() - WHOLE_REQUESTS - NEVER_WHOLE.keys() - WRONG_WITHOUT_HOST))
def test_it_is_refused_for_its_own_defect_and_not_for_want_of_a_host(sqlite_local: Service, name: str) -> None:
    request = request_bytes(REQUESTS[name])
    if b"\r\nhost:" not in request.lower():
        request = request.replace(b"\r\n", b"\r\nHost: x\r\n", 1)
    answered = statuses(exchange(sqlite_local, request))
    assert len(answered) == 1
    assert set(answered) <= REFUSED
