"""The stores that the settings ask for: the platform's own, and the connection to each tenant's bucket.

The S3 store, with its signatures and HTTP clients, is loaded when a bucket is first used.
"""

# ruff: noqa: PLC0415  (see above)

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Protocol

from sluice.buckets import Bucket
from sluice.buckets.endpoints import EndpointRefused, EndpointWatch, needs_relay, require_allowed, require_public
from sluice.buckets.service import Buckets, secret_binding
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.kit.keyring_file import load_keyring
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.storage import PROBES, EndpointNotAllowed, ListsObjects, ObjectStore
from sluice.storage.local.store import LocalStore
from sluice.storage.s3.client import S3Timeouts
from sluice.storage.s3.relay import Relay
from sluice.wiring.refusal import StartRefused
from sluice.wiring.start import KEYRING, keyring, secret_file

_MB = 1024 * 1024


def load_s3() -> None:
    """Load the S3 store before its first use: processes that are forked from this one share the memory."""
    import sluice.storage.s3.store  # noqa: F401


def make_stores(settings: Settings) -> Stores:
    """Return the platform's own store and how to connect to a tenant's bucket; make the keyring if it is missing.

    Raise `StoreError`, `StartRefused` or `SecretFileRefused`.
    """
    if settings.keyring is None:
        path = secret_file(settings, KEYRING)
        if load_keyring(path).made:
            why = "keep a copy: without it no bucket's credentials can be read"
            log.warning("keyring_made", path=str(path), why=why)
    return open_stores(settings)


def open_stores(settings: Settings) -> Stores:
    """Return the stores as `make_stores` does, with the keyring that is there.

    Without its file, the credentials of no bucket can be opened: `SecretFileRefused` is raised when they are needed.
    """
    sealer = keyring(settings)
    timeouts = S3Timeouts(settings.s3_connect_seconds, settings.s3_request_seconds, settings.s3_retries)
    allowed = settings.bucket_endpoint_hosts
    relay = Relay(partial(_allowed_addresses, allowed), settings.s3_connect_seconds)

    def connect(bucket: Bucket) -> ObjectStore:
        from sluice.storage.s3.store import S3Store

        endpoint_url = bucket.endpoint_url
        relayed = endpoint_url is not None and needs_relay(endpoint_url)

        async def check_endpoint(watch: EndpointWatch) -> None:
            # The operator's list may be another one than when the bucket was added. And a tenant controls the DNS of
            # its endpoint, and may point it at our network.
            try:
                await watch.require()
            except EndpointRefused as fault:
                raise _not_allowed(fault) from fault
            if relayed:
                await relay.start()

        return S3Store(
            bucket.default_bucket,
            bucket.region,
            bucket.access_key_id,
            sealer.open(bucket.secret_sealed, bound_to=secret_binding(bucket)),
            endpoint_url=endpoint_url,
            timeouts=timeouts,
            part_bytes=settings.s3_multipart_mb * _MB,
            rest_seconds=settings.s3_rest_seconds,
            probe_folder=bucket.key_for(PROBES),
            before=None if endpoint_url is None else partial(check_endpoint, EndpointWatch(endpoint_url, allowed)),
            relay_url=relay.url if relayed else None,
        )

    return Stores(_make_platform_store(settings, timeouts), connect, relay=relay)


async def _allowed_addresses(allowed: Collection[str], origin: str) -> Collection[str]:
    """Return the addresses that an origin resolves to now, all of them allowed. Raise `EndpointNotAllowed`."""
    try:
        require_allowed(origin, allowed)
        return await require_public(origin, allowed)
    except EndpointRefused as fault:
        raise _not_allowed(fault) from fault


def _not_allowed(fault: EndpointRefused) -> EndpointNotAllowed:
    return EndpointNotAllowed(f"The endpoint of the bucket cannot be used: {fault}.")


def _make_platform_store(settings: Settings, timeouts: S3Timeouts) -> ObjectStore:
    """Return the store of tenants without a bucket: a folder, or the operator's own bucket."""
    bucket = settings.resolved_storage_bucket
    if bucket is None:
        return LocalStore(settings.resolved_storage_dir)
    if settings.storage_access_key_id is None or settings.storage_secret_access_key is None:
        raise StartRefused(
            "A bucket as the platform's store needs SLUICE_STORAGE_ACCESS_KEY_ID and SLUICE_STORAGE_SECRET_ACCESS_KEY "
            "beside it."
        )
    from sluice.storage.s3.store import S3Store

    return S3Store(
        bucket,
        settings.storage_region,
        settings.storage_access_key_id,
        settings.storage_secret_access_key.get_secret_value(),
        endpoint_url=None if settings.storage_endpoint is None else str(settings.storage_endpoint).rstrip("/"),
        timeouts=timeouts,
        part_bytes=settings.s3_multipart_mb * _MB,
        rest_seconds=settings.s3_rest_seconds,
    )


def make_buckets(settings: Settings, database: Database, stores: Stores) -> Buckets:
    """Return the buckets of all tenants."""
    return Buckets(
        database,
        stores,
        keyring(settings),
        allowed_endpoints=settings.bucket_endpoint_hosts,
        probe=settings.bucket_probe,
    )


class SourceBucket(ListsObjects, ObjectStore, Protocol):
    """A bucket whose objects are listed and read."""


def make_source_bucket(
    name: str, region: str, access_key_id: str, secret_access_key: str, endpoint_url: str | None
) -> SourceBucket:
    """Return a bucket from which a command reads. Raise `StoreError`."""
    from sluice.storage.s3.store import S3Store

    return S3Store(name, region, access_key_id, secret_access_key, endpoint_url=endpoint_url)


def make_local_store(folder: Path) -> ObjectStore:
    """Return a local store in a folder, created if missing: the service's own, or that of a backup."""
    return LocalStore(folder)
