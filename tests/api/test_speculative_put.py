"""A large upload goes to its bucket while the scanner still looks at it; what the scanner says decides whether it is ever there."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from tests.api.answers import data, rejected
from tests.api.places import Places
from tests.engines.scanner.faulty_clamd import FOUND, Peer, take_all
from tests.gate import Gate, running_service
from tests.scanning.daemons import daemon_in_thread
from tests.servers.radosgw import RadosGateway

_LARGE = os.urandom(12 * 1024**2)


@contextmanager
def _gate(places: Places, gateway: RadosGateway, bucket: str, then: Callable[[Peer], Awaitable[None]]) -> Iterator[Gate]:
    """A service whose scanner waits with each answer until parts of the file are in the bucket."""

    async def answer_late(peer: Peer) -> None:
        if len(await take_all(peer)) >= len(_LARGE):
            while not await asyncio.to_thread(gateway.unfinished_uploads, bucket):
                pass
        await then(peer)

    with daemon_in_thread(answer_late) as clamd:
        settings = {
            "SCANNER": "clamd",
            "CLAMD": clamd.address,
            "STORAGE_BUCKET": bucket,
            "STORAGE_ENDPOINT": gateway.endpoint,
            "STORAGE_ACCESS_KEY_ID": gateway.access_key,
            "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
        }
        with running_service(replace(places.fresh("sqlite-local"), settings=settings)) as service:
            yield service.new_gate()


def _bucket(gateway: RadosGateway) -> str:
    return gateway.create_bucket(f"ahead-{secrets.token_hex(8)}")


async def _finds_nothing(peer: Peer) -> None:
    await peer.say(b"stream: OK\0")


async def _finds(peer: Peer) -> None:
    await peer.say(FOUND)


async def _hangs_up(peer: Peer) -> None:
    peer.reset()


def test_what_is_clean_is_stored_as_it_was_sent(places: Places, gateway: RadosGateway) -> None:
    bucket = _bucket(gateway)
    with _gate(places, gateway, bucket, _finds_nothing) as gate:
        stored = data(gate.upload("a.bin", _LARGE, context=gate.context(max_file_size_mb=15)), 201)
        link = data(gate.ask("GET", f"/files/{stored['file_id']}"))
        assert httpx.get(link["download_url"]).content == _LARGE
        assert (len(gateway.keys(bucket)), gateway.unfinished_uploads(bucket)) == (1, [])


def test_what_is_infected_leaves_nothing_in_the_bucket(places: Places, gateway: RadosGateway) -> None:
    bucket = _bucket(gateway)
    with _gate(places, gateway, bucket, _finds) as gate:
        rejected(gate.upload("a.bin", _LARGE, context=gate.context(max_file_size_mb=15)), "virus_detected")
        assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])


def test_what_could_not_be_scanned_leaves_nothing_in_the_bucket(places: Places, gateway: RadosGateway) -> None:
    bucket = _bucket(gateway)
    with _gate(places, gateway, bucket, _hangs_up) as gate:
        assert gate.upload("a.bin", _LARGE, context=gate.context(max_file_size_mb=15)).status_code == 503
        assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])
