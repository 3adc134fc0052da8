"""How the S3 client library is set up: bounded waiting, and nothing taken from the machine. What is asked of it stands in `s3`."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.store import S3Store as Client

from sluice.engines.storage.protocol import StoreFault
from sluice.engines.storage.s3_address import Address
from sluice.engines.storage.s3_faults import FOREIGN, NOWHERE

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_environment: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds. `request_seconds` bounds one HTTP request with its body (a part at most).

    A failed request is repeated up to `retries` times, but no new try begins `request_seconds` after the first; one call takes
    twice that at most (the library's own defaults: 10 retries in 180 s).
    """

    connect_seconds: float = 3.0
    request_seconds: float = 30.0
    retries: int = 2


def client_of(
    address: Address,
    region: str,
    access_key_id: str,
    secret_access_key: str,
    patience: Patience,
    *,
    sign_payload: bool,
    relay_url: str | None = None,
) -> Client:
    """Answer a client of one bucket that knows these credentials and no others, and talks to no other host.

    The library follows redirects and has no switch for it. A tenant's endpoint could send it, with what it answers, to any
    address inside; so every host but the bucket's own is given a proxy that cannot exist. This also sets aside `HTTP_PROXY`.
    With a `relay_url` all goes to that proxy (`s3_relay`), a connection for each request.
    """
    ways: ClientConfig = {"proxy_url": NOWHERE, "proxy_excludes": address.host}
    if relay_url is not None:
        ways = {"proxy_url": relay_url, "pool_max_idle_per_host": "0"}
    with _no_ambient_settings():
        try:
            return Client(
                address.bucket,
                config={
                    "endpoint": address.endpoint,
                    "region": region,
                    "access_key_id": access_key_id,
                    "secret_access_key": secret_access_key,
                    "virtual_hosted_style_request": address.virtual_hosted,
                    "unsigned_payload": not sign_payload,
                    "disable_bulk_delete": True,  # one DELETE answers per object, on every S3
                },
                client_options={
                    "allow_http": not address.is_encrypted,
                    "connect_timeout": timedelta(seconds=patience.connect_seconds),
                    "timeout": timedelta(seconds=patience.request_seconds),
                    **ways,
                },
                retry_config={
                    "max_retries": patience.retries,
                    "retry_timeout": timedelta(seconds=patience.request_seconds),
                    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
                },
            )
        except FOREIGN:
            raise StoreFault("The bucket cannot be addressed with these settings.") from None


@contextmanager
def _no_ambient_settings() -> Iterator[None]:
    """Hide every `AWS_*` variable while a client is made: it would take tokens, endpoints and `AWS_ALLOW_INVALID_CERTIFICATES`."""
    with _environment:
        hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.upper().startswith("AWS_")}
        try:
            yield
        finally:
            os.environ.update(hidden)
