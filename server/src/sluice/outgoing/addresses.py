"""The addresses behind a URL that a tenant names: each is judged before it is dialled."""

import ipaddress
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

import httpx

from sluice.buckets.endpoints import (
    EndpointRefused,
    Resolve,
    addresses_of,
    require_allowed,
    require_allowed_addresses,
)

_PORTS: Final = MappingProxyType({"http": 80, "https": 443})


class NoAddress(EndpointRefused):
    """The host of an endpoint has no address now."""


def require_usable(url: str, allowed: Collection[str]) -> None:
    """Raise `EndpointRefused` unless the URL is https, or names a host that the operator listed.

    An address in its place must be one that may be dialled.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        _ = httpx.URL(url).host  # decodes the name
        host.encode("idna")
    except (ValueError, httpx.InvalidURL) as fault:
        raise EndpointRefused("is no URL, or its host is no host name") from fault
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc or parts.fragment or port == 0:
        raise EndpointRefused("expected https://host/path, without user, password and fragment")
    if _is_listed(url, allowed):
        return
    if parts.scheme != "https":
        raise EndpointRefused("expected https: the operator allows http to no other host")
    with suppress(ValueError):
        require_allowed_addresses([str(ipaddress.ip_address(host))], allowed)
    if host == "localhost" or host.endswith(".localhost"):
        raise EndpointRefused("this host leads to an address that the operator does not allow")


async def judged_addresses(url: str, allowed: Collection[str], resolve: Resolve = addresses_of) -> Sequence[str]:
    """Return the addresses that the host of `url` has now, all of which may be dialled.

    Raise `EndpointRefused` if one of them may not, and `NoAddress` if the host has none.
    """
    require_usable(url, allowed)
    host = urlsplit(url).hostname or ""
    is_address = _is_address(host)
    found = [host] if is_address else list(await resolve(host))
    if not found:
        raise NoAddress("this host has no address")
    if not (_is_listed(url, allowed) and (is_address or host == "localhost")):
        require_allowed_addresses(found, allowed)
    return sorted(found, key=lambda address: (":" in address, address))


async def require_reachable(url: str, allowed: Collection[str], resolve: Resolve = addresses_of) -> None:
    """Raise `EndpointRefused` for a URL that is never dialled. A name without an address may get one later."""
    with suppress(NoAddress):
        await judged_addresses(url, allowed, resolve)


def _is_listed(url: str, allowed: Collection[str]) -> bool:
    parts = urlsplit(url)
    try:
        require_allowed(f"{parts.scheme}://{parts.netloc}", allowed)
    except EndpointRefused:
        return False
    return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
