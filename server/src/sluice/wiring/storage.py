"""The stores that the settings ask for: the platform's own, and the connection to each tenant's bucket.

The S3 store, with its signatures and HTTP clients, is loaded when a bucket is first used.
"""

# ruff: noqa: PLC0415  (see above)

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from pydantic import SecretStr

from sluice.buckets import Bucket
from sluice.buckets.endpoints import EndpointRefused, EndpointWatch, needs_relay, require_allowed, require_public
from sluice.buckets.service import Buckets, secret_binding
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.kit.keyring_file import load_keyring
from sluice.observe.log import log
from sluice.settings import Settings
from sluice.storage import (
    PROBES,
    PROVIDERS,
    Connection,
    EndpointNotAllowed,
    FieldRefused,
    ListsObjects,
    ObjectStore,
    Timeouts,
)
from sluice.storage.local.store import LocalStore
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
    connection = _connection(settings)
    allowed = settings.bucket_endpoint_hosts
    relay = Relay(partial(_allowed_addresses, allowed), settings.s3_connect_seconds)

    def connect(bucket: Bucket) -> ObjectStore:
        secret = sealer.open(bucket.secret_sealed, bound_to=secret_binding(bucket))
        endpoint_url = bucket.settings.endpoint_url
        own = replace(connection, probe_folder=bucket.key_for(PROBES))
        if endpoint_url is None:
            return bucket.settings.connect(bucket.default_bucket, secret, own)
        watch, relayed = EndpointWatch(endpoint_url, allowed), needs_relay(endpoint_url)

        async def check_endpoint() -> None:
            # The operator's list may be another one than when the bucket was added. And a tenant controls the DNS of
            # its endpoint, and may point it at our network.
            try:
                await watch.require()
            except EndpointRefused as fault:
                raise _not_allowed(fault) from fault
            if relayed:
                await relay.start()

        own = replace(own, before=check_endpoint, relay_url=relay.url if relayed else None)
        return bucket.settings.connect(bucket.default_bucket, secret, own)

    return Stores(_make_platform_store(settings, connection), connect, relay=relay)


def _connection(settings: Settings) -> Connection:
    return Connection(
        PROBES,
        Timeouts(settings.s3_connect_seconds, settings.s3_request_seconds, settings.s3_retries),
        part_bytes=settings.s3_multipart_mb * _MB,
        rest_seconds=settings.s3_rest_seconds,
    )


async def _allowed_addresses(allowed: Collection[str], origin: str) -> Collection[str]:
    """Return the addresses that an origin resolves to now, all of them allowed. Raise `EndpointNotAllowed`."""
    try:
        require_allowed(origin, allowed)
        return await require_public(origin, allowed)
    except EndpointRefused as fault:
        raise _not_allowed(fault) from fault


def _not_allowed(fault: EndpointRefused) -> EndpointNotAllowed:
    return EndpointNotAllowed(f"The endpoint of the bucket cannot be used: {fault}.")


def _make_platform_store(settings: Settings, connection: Connection) -> ObjectStore:
    """Return the store of tenants without a bucket: a folder, or the operator's own bucket."""
    if settings.resolved_storage_url is None:
        return LocalStore(settings.resolved_storage_dir)
    url = urlsplit(settings.resolved_storage_url)
    provider = next(each for each in PROVIDERS.values() if each.scheme == url.scheme)
    given = {
        "region": settings.storage_region,
        "endpoint_url": None if settings.storage_endpoint is None else str(settings.storage_endpoint).rstrip("/"),
        "access_key_id": settings.storage_access_key_id,
        "secret_access_key": _plain(settings.storage_secret_access_key),
        "secret": _plain(settings.storage_secret),
    }
    try:
        place, bucket, secret = provider.of_platform(url, {name: value for name, value in given.items() if value})
    except FieldRefused as fault:
        raise StartRefused(f"The bucket that is the platform's store cannot be used: {fault}.") from fault
    return place.connect(bucket, secret, connection)


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


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
