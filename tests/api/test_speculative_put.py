"""A large upload is put into its bucket speculatively during the scan; the verdict decides whether it is kept."""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx

from tests.api.responses import assert_rejected, data
from tests.deployments import Deployments
from tests.rows import each_row
from tests.scanner.faulty_clamd import EICAR_FOUND, Peer, read_stream
from tests.scanning.faulty_daemon import daemon_in_thread
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient, running_service

_LARGE = os.urandom(12 * 1024**2)


@contextmanager
def _client(
    deployments: Deployments, gateway: RadosGateway, bucket: str, then: Callable[[Peer], Awaitable[None]]
) -> Iterator[ApiClient]:
    """An API client of a service whose scanner responds only after parts of the file are in the bucket."""

    async def answer_late(peer: Peer) -> None:
        if len(await read_stream(peer)) >= len(_LARGE):
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
        with running_service(replace(deployments.fresh("sqlite-local"), settings=settings)) as service:
            yield service.new_client()


async def _finds_nothing(peer: Peer) -> None:
    await peer.send(b"stream: OK\0")


async def _finds(peer: Peer) -> None:
    await peer.send(EICAR_FOUND)


async def _hangs_up(peer: Peer) -> None:
    peer.reset()


def test_clean_file_is_stored_unchanged(deployments: Deployments, gateway: RadosGateway) -> None:
    bucket = gateway.create_bucket(f"ahead-{secrets.token_hex(8)}")
    with _client(deployments, gateway, bucket, _finds_nothing) as client:
        stored = data(client.upload("a.bin", _LARGE, context=client.create_context(max_file_size_mb=15)), 201)
        link = data(client.request("GET", f"/files/{stored['file_id']}"))
        assert httpx.get(link["download_url"]).content == _LARGE
        assert (len(gateway.keys(bucket)), gateway.unfinished_uploads(bucket)) == (1, [])


@each_row("then, status", [(_finds, 400), (_hangs_up, 503)], ids=["infected", "not scanned"])
def test_file_that_is_not_accepted_leaves_nothing_in_the_bucket(
    deployments: Deployments, gateway: RadosGateway, then: Callable[[Peer], Awaitable[None]], status: int
) -> None:
    bucket = gateway.create_bucket(f"ahead-{secrets.token_hex(8)}")
    with _client(deployments, gateway, bucket, then) as client:
        response = client.upload("a.bin", _LARGE, context=client.create_context(max_file_size_mb=15))
        assert response.status_code == status
        if status == 400:
            assert_rejected(response, "virus_detected")
        assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])
