"""Where a bucket is reached: AWS by region, or an endpoint of one's own. Whether a tenant may name an endpoint is decided in `buckets`."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from sluice.engines.storage.protocol import StoreFault

# both become part of a host name or a path: nothing that could end either (and Ceph and OpenStack know regions like `RegionOne`)
_REGION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+", re.ASCII)
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", re.ASCII)

_NO_ENDPOINT: Final = "The endpoint is an http or https address of a host, without path, user or query."


@dataclass(frozen=True, slots=True)
class Address:
    """`endpoint` is scheme, host and port; with `virtual_hosted` the host holds the bucket's name, else the path does."""

    endpoint: str
    host: str
    bucket: str
    virtual_hosted: bool

    @property
    def is_encrypted(self) -> bool:
        """Say whether TLS protects the way."""
        return self.endpoint.startswith("https://")

    def url(self, key: str) -> str:
        """Answer the object's URL, percent-encoded as signature version 4 wants it."""
        path = key if self.virtual_hosted else f"{self.bucket}/{key}"
        return f"{self.endpoint}/{quote(path, safe='/-_.~')}"


def address_of(bucket: str, region: str, endpoint_url: str | None) -> Address:
    """Answer where `bucket` is; raises `StoreFault` for what can be no address.

    AWS is addressed by virtual host, except for names with dots, which its TLS certificate does not cover; others by path.
    """
    if not _BUCKET.fullmatch(bucket):
        raise StoreFault("The bucket name is 3 to 63 letters, digits, dots and hyphens.")
    if not _REGION.fullmatch(region):
        raise StoreFault("The region is a name such as us-east-1.")
    if endpoint_url is not None:
        return _own_endpoint(bucket, endpoint_url)
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    virtual_hosted = "." not in bucket and "_" not in bucket
    host = f"{bucket}.s3.{region}.{domain}" if virtual_hosted else f"s3.{region}.{domain}"
    return Address(f"https://{host}", host, bucket, virtual_hosted)


def _own_endpoint(bucket: str, endpoint_url: str) -> Address:
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StoreFault(_NO_ENDPOINT) from None
    bare = parts._replace(scheme="", netloc="").geturl() in {"", "/"}
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or "@" in parts.netloc or not bare:
        raise StoreFault(_NO_ENDPOINT)
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{shown}{f':{port}' if port else ''}", host, bucket, virtual_hosted=False)
