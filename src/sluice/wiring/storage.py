"""Which stores the settings ask for: the platform's own, and how a tenant's bucket is reached."""

from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path

from sluice.buckets import Bucket
from sluice.buckets.endpoints import EndpointRefused, EndpointWatch, is_overheard, require_allowed, require_public
from sluice.buckets.service import Buckets, secret_binding
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.engines.storage import ObjectStore, StoreFault
from sluice.engines.storage.local import LocalStore
from sluice.engines.storage.s3 import S3Store
from sluice.engines.storage.s3_client import Patience
from sluice.engines.storage.s3_relay import Relay
from sluice.kit.keyring_file import KeyringFile, load_keyring
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.wiring.secrets import KEYRING, secret_file
from sluice.wiring.start import StartRefused

_MB = 1024 * 1024
_ASTRAY = "The endpoint's host leads to an address that the operator does not allow."


def make_stores(settings: Settings) -> Stores:
    """Answer the stores of these settings: the platform's own, and how to reach a tenant's bucket. Raises `StoreFault`."""
    keyring_path = secret_file(settings, KEYRING)
    if load_keyring(keyring_path).made:
        log.warning("keyring_made", path=str(keyring_path), why="keep a copy: without it no bucket's credentials can be read")
    keyring = KeyringFile(keyring_path)
    patience = Patience(settings.s3_connect_seconds, settings.s3_request_seconds, settings.s3_retries)

    allowed = settings.bucket_endpoint_hosts
    relay = Relay(partial(_led, allowed), settings.s3_connect_seconds)

    def connect(bucket: Bucket) -> ObjectStore:
        endpoint_url = bucket.endpoint_url
        relayed = endpoint_url is not None and is_overheard(endpoint_url)
        return S3Store(
            bucket.default_bucket,
            bucket.region,
            bucket.access_key_id,
            keyring.open(bucket.secret_sealed, bound_to=secret_binding(bucket)),
            endpoint_url=endpoint_url,
            patience=patience,
            part_bytes=settings.s3_multipart_mb * _MB,
            rest_seconds=settings.s3_rest_seconds,
            probe_folder=bucket.key_for(".sluice-probe"),
            before=None if endpoint_url is None else _watched(endpoint_url, allowed, relay.start if relayed else _nothing),
            relay_url=relay.url if relayed else None,
        )

    return Stores(_platform_store(settings, patience), connect, relay=relay)


async def _led(allowed: Collection[str], origin: str) -> Collection[str]:
    """Answer the addresses that an origin leads to now, each of which may be called. Raises `StoreFault`."""
    try:
        require_allowed(origin, allowed)
        return await require_public(origin, allowed)
    except EndpointRefused as fault:
        raise StoreFault(_ASTRAY) from fault


async def _nothing() -> None:
    return


def _watched(endpoint_url: str, allowed: Collection[str], start: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """Answer what refuses an endpoint whose host was turned to where the operator does not allow it, and starts what leads there."""
    watch = EndpointWatch(endpoint_url, allowed)

    async def require() -> None:
        try:
            await watch.require()
        except EndpointRefused as fault:
            raise StoreFault(_ASTRAY) from fault
        await start()

    return require


def _platform_store(settings: Settings, patience: Patience) -> ObjectStore:
    """Answer the store of tenants without a bucket: a folder, or the operator's own bucket."""
    bucket = settings.resolved_storage_bucket
    if bucket is None:
        return LocalStore(settings.resolved_storage_dir)
    if settings.storage_access_key_id is None or settings.storage_secret_access_key is None:
        raise StartRefused(
            "A bucket as the platform's store needs SLUICE_STORAGE_ACCESS_KEY_ID and SLUICE_STORAGE_SECRET_ACCESS_KEY beside it."
        )
    return S3Store(
        bucket,
        settings.storage_region,
        settings.storage_access_key_id,
        settings.storage_secret_access_key.get_secret_value(),
        endpoint_url=None if settings.storage_endpoint is None else str(settings.storage_endpoint).rstrip("/"),
        patience=patience,
        part_bytes=settings.s3_multipart_mb * _MB,
        rest_seconds=settings.s3_rest_seconds,
    )


def make_buckets(settings: Settings, database: Database, stores: Stores) -> Buckets:
    """Answer the buckets of all tenants."""
    return Buckets(
        database,
        stores,
        KeyringFile(settings.keys_dir / KEYRING),
        allowed_endpoints=settings.bucket_endpoint_hosts,
        probe=settings.bucket_probe,
    )


def make_local_store(folder: Path) -> ObjectStore:
    """Answer the local store in a folder, which is made when missing: the service's own, or a backup's."""
    return LocalStore(folder)
