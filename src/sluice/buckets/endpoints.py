"""Which S3 endpoints a tenant may name: only hosts on the operator's list, since the service calls them from inside its own network."""

from collections.abc import Collection
from urllib.parse import urlsplit


class EndpointRefused(ValueError):
    """The endpoint is malformed or not on the list. `str()` is one sentence."""


def require_allowed(endpoint_url: str, allowed_hosts: Collection[str]) -> None:
    """Raise `EndpointRefused` unless `endpoint_url` is a bare http(s) origin whose host, or host:port, the operator listed."""
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname, parts.port
    except ValueError as fault:
        raise EndpointRefused("is no URL") from fault
    if parts.scheme not in {"http", "https"} or not host:
        raise EndpointRefused("expected https://host or http://host")
    if parts.username or parts.password or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise EndpointRefused("expected only scheme, host and port")
    named = f"{host}:{port or (443 if parts.scheme == 'https' else 80)}"
    listed = {entry.lower() for entry in allowed_hosts}
    if host not in listed and named not in listed:
        raise EndpointRefused("this host is not among those that the operator allows; leave endpoint_url out for AWS")
