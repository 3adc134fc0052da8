"""Host names are looked up in threads that neither the loop nor the process waits for."""

import asyncio
import socket
import threading
from typing import Any

import pytest
import uvloop

from sluice.kit.host_lookup import look_up


def test_addresses_of_a_number_are_found() -> None:
    found = asyncio.run(look_up("127.0.0.1", 80))
    assert [(family, address) for family, _, _, _, address in found] == [(socket.AF_INET, ("127.0.0.1", 80))]


@pytest.mark.parametrize(("host", "error"), [("\udc80", UnicodeError), ("a" * 64 + ".test", UnicodeError)])
def test_text_that_cannot_be_a_host_name_is_refused(host: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        asyncio.run(look_up(host))


def test_end_of_the_loop_does_not_wait_for_a_resolver_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do other lookups: there are more of the former than libuv has threads."""
    responds, resolve = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **named: Any) -> Any:
        if host == "silent.test":
            assert responds.wait(60)
        return resolve(host, *arguments, **named)

    async def look_up_many() -> int:
        silent = [asyncio.create_task(look_up("silent.test")) for _ in range(8)]
        found = await look_up("127.0.0.1")
        for task in silent:
            task.cancel()
        await asyncio.gather(*silent, return_exceptions=True)
        return len(found)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(look_up_many()) == 1
    waiting = [thread for thread in threading.enumerate() if thread.name == "look up silent.test"]
    assert len(waiting) == 8
    responds.set()
    for thread in waiting:
        thread.join(10)
