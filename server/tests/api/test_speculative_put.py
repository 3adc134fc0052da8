"""The platform's store in an S3 bucket, for tenants without a bucket.

A large upload is put into it speculatively during the scan; the verdict decides whether it is kept.
"""

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

import httpx

from tests.api.responses import assert_rejected, data
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.scanner.faulty_clamd import EICAR_FOUND, Peer, read_stream
from tests.scanning.faulty_daemon import daemon_in_thread
from tests.servers.radosgw import RadosGateway
from tests.service import running_service

_SIZE = 12 * 1024**2


async def _finds_nothing(peer: Peer) -> None:
    await peer.send(b"stream: OK\0")


async def _finds(peer: Peer) -> None:
    await peer.send(EICAR_FOUND)


async def _hangs_up(peer: Peer) -> None:
    peer.reset()


def test_large_file_is_kept_in_the_bucket_only_when_it_is_clean(
    deployments: Deployments, gateway: RadosGateway
) -> None:
    """The scanner responds only after parts of the file are in the bucket."""
    bucket = gateway.create_bucket(f"ahead-{secrets.token_hex(8)}")
    then: list[Callable[[Peer], Awaitable[None]]] = [_finds]

    async def reply_late(peer: Peer) -> None:
        if len(await read_stream(peer)) >= _SIZE:
            while not await asyncio.to_thread(gateway.unfinished_uploads, bucket):
                pass
        await then[0](peer)

    settings = {
        "STORAGE_BUCKET": bucket,
        "STORAGE_ENDPOINT": gateway.endpoint,
        "STORAGE_ACCESS_KEY_ID": gateway.access_key,
        "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
    }
    with daemon_in_thread(reply_late) as clamd:
        scanner = {"SCANNER": "clamd", "CLAMD": clamd.address}
        with running_service(replace(deployments.fresh("sqlite-local"), settings=settings | scanner)) as service:
            client = service.new_client()
            context = client.create_context(max_file_size_mb=15)
            assert_rejected(client.upload("a.bin", os.urandom(_SIZE), context=context), "virus_detected")
            assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])
            then[0] = _hangs_up
            assert client.upload("a.bin", os.urandom(_SIZE), context=context).status_code == 503
            assert (gateway.keys(bucket), gateway.unfinished_uploads(bucket)) == ([], [])
            then[0] = _finds_nothing
            for number, content in enumerate((TEXT, os.urandom(_SIZE)), 1):
                stored = data(client.upload("a.bin", content, context=context), 201)
                link = data(client.get(f"/files/{stored['file_id']}"))["download_url"]
                assert link.startswith(gateway.endpoint)
                assert httpx.get(link).content == content
                assert (len(gateway.keys(bucket)), gateway.unfinished_uploads(bucket)) == (number, [])
