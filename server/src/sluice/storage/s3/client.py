"""The connection to one bucket: its address, and the setup of the client library, obstore."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from obstore import parse_scheme
from obstore.store import S3Store as Client

from sluice.storage.protocol import StoreError, Timeouts
from sluice.storage.s3.errors import FOREIGN, NOWHERE

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config, S3Credential

# Region and host become part of a host name or a path, so nothing is allowed that could end either. Ceph and OpenStack
# know regions like `RegionOne`.
_REGION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+", re.ASCII)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", re.ASCII)
_NO_REGION: Final = "The region is a name such as us-east-1."
_NO_ENDPOINT: Final = "The endpoint is an http or https address of a host, without path, user or query."

# obstore reads every `AWS_*` variable when a client is made (object_store, `AmazonS3Builder::from_env`). `make_client`
# sets each of them explicitly, but these have no value that means "none". No other program knows them, so they are
# removed once, when the process starts and has no other thread yet.
for _name in (
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_BUCKET_KEY_ENABLED",
    "AWS_SSE_CUSTOMER_KEY_BASE64",
    "AWS_SSE_KMS_KEY_ID",
):
    os.environ.pop(_name, None)


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """The key pair of one bucket, and the region that its signatures name."""

    region: str
    access_key_id: str
    secret_access_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Address:
    """`endpoint` is scheme, host and port. The bucket's name is in the host if `virtual_hosted`, else in the path."""

    endpoint: str
    host: str
    bucket: str
    virtual_hosted: bool

    @property
    def is_protected(self) -> bool:
        """Whether what is sent cannot be changed on the way: TLS protects it, or it stays on this machine."""
        if self.endpoint.startswith("https://") or self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, key: str) -> str:
        """Return the object's URL, percent-encoded as signature version 4 requires."""
        path = key if self.virtual_hosted else f"{self.bucket}/{key}"
        return f"{self.endpoint}/{quote(path, safe='/-_.~')}"


def bucket_address(bucket: str, region: str, endpoint_url: str | None) -> Address:
    """Return the address of `bucket` at AWS, or at `endpoint_url`; raise `StoreError` for an impossible one."""
    if not _BUCKET.fullmatch(bucket):
        raise StoreError("The bucket name is 3 to 63 letters, digits, dots and hyphens.")
    if not _REGION.fullmatch(region):
        raise StoreError(_NO_REGION)
    if endpoint_url is not None:
        address = _endpoint_address(bucket, endpoint_url)
        _require_parsable(address, _NO_ENDPOINT)
        return address
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    # The TLS certificate of AWS does not cover virtual hosts with a dot in the bucket's name.
    virtual_hosted = "." not in bucket and "_" not in bucket
    host = f"{bucket}.s3.{region}.{domain}" if virtual_hosted else f"s3.{region}.{domain}"
    address = Address(f"https://{host}", host, bucket, virtual_hosted)
    _require_parsable(address, _NO_REGION)
    return address


def _require_parsable(address: Address, problem: str) -> None:
    """Raise `StoreError` for a host such as `xn--abc` or `999.1.1.1`: the library would panic at the first request."""
    try:
        parse_scheme(address.endpoint)
    except FOREIGN:
        raise StoreError(problem) from None


def _endpoint_address(bucket: str, endpoint_url: str) -> Address:
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StoreError(_NO_ENDPOINT) from None
    bare = parts._replace(scheme="", netloc="").geturl() in {"", "/"}
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or "@" in parts.netloc or not bare:
        raise StoreError(_NO_ENDPOINT)
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{shown}{f':{port}' if port else ''}", host, bucket, virtual_hosted=False)


def make_client(
    address: Address,
    credentials: S3Credentials,
    timeouts: Timeouts,
    *,
    relay_url: str | None = None,
    bulk_delete: bool = False,
) -> Client:
    """Return a client of one bucket that uses these credentials only, and talks to no other host.

    It has the server check the SHA-256 of each body, for 0.5 CPU seconds a GB, unless the address is protected.
    With a `relay_url` every request goes through that proxy, on a connection of its own. Raise `StoreError` for
    settings that the library refuses.
    """
    # The library follows redirects and has no switch for it. A tenant's endpoint could send it to any internal address
    # and see the response. So every host but the bucket's own gets a proxy that cannot exist; this also disables
    # `HTTP_PROXY`.
    proxy: ClientConfig = {"proxy_url": NOWHERE, "proxy_excludes": address.host}
    if relay_url is not None:
        proxy = {"proxy_url": relay_url, "pool_max_idle_per_host": "0"}
    # All options that a variable could set otherwise. `client_options` replace those from variables as a whole.
    config: S3Config = {
        "aws_endpoint_url_s3": address.endpoint,
        "conditional_put": "etag",
        "copy_if_not_exists": "multipart",
        "disable_bulk_delete": not bulk_delete,
        "disable_tagging": False,
        "endpoint": address.endpoint,
        "imdsv1_fallback": False,
        "region": credentials.region,
        "request_payer": False,
        "s3_express": False,
        "skip_signature": False,
        "unsigned_payload": address.is_protected,
        "virtual_hosted_style_request": address.virtual_hosted,
    }
    limit = timedelta(seconds=timeouts.request_seconds)
    try:
        return Client(
            address.bucket,
            config=config,
            client_options={
                "allow_http": address.endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=timeouts.connect_seconds),
                "timeout": limit,
                **proxy,
            },
            retry_config={
                "max_retries": timeouts.retries,
                "retry_timeout": limit,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=2),
                    "base": 2,
                },
            },
            credential_provider=_provider(credentials),
        )
    except FOREIGN:
        raise StoreError("The bucket cannot be addressed with these settings.") from None


def _provider(credentials: S3Credentials) -> "Callable[[], S3Credential]":
    """Give the key pair without a session token; as plain options it would be joined by `AWS_SESSION_TOKEN`."""

    def provide() -> "S3Credential":
        return {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "token": None,
            "expires_at": None,
        }

    return provide
