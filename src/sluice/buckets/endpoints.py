"""Which S3 endpoints a tenant may name: only hosts on the operator's list, since the service calls them from inside its own network."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final
from urllib.parse import urlsplit

Resolve = Callable[[str], Awaitable[Collection[str]]]
"""Answers the addresses of a host; none when it has none."""


_PROTOCOLS: Final = ipaddress.IPv4Network("192.0.0.0/24")
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""All that IANA has given out (RFC 4291 section 2.4)."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Ends in the IPv4 address that is meant (RFC 6052 section 2.1)."""
_SIX_TO_FOUR: Final = ipaddress.IPv6Network("2002::/16")


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


async def addresses_of(host: str) -> Collection[str]:
    """Answer the addresses that this machine knows for `host`, none when it knows none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return {str(address[0]).partition("%")[0] for *_, address in found}


def is_overheard(endpoint_url: str) -> bool:
    """Say whether nothing but the name service tells whom a client of this endpoint meets: plain http, and a name."""
    parts = urlsplit(endpoint_url)
    return parts.scheme == "http" and parts.hostname != "localhost" and _address(parts.hostname or "") is None


async def require_public(endpoint_url: str, allowed: Collection[str], resolve: Resolve = addresses_of) -> Collection[str]:
    """Answer the addresses that an endpoint leads to.

    Raises `EndpointRefused` when an allowed host leads into a private network that the operator did not list (`10.0.0.0/8`).

    A host that is listed as an address, or as `localhost`, says where it leads. Of names, whoever answers for them decides: at this moment
    (see `EndpointWatch` for later ones).
    """
    host = urlsplit(endpoint_url).hostname or ""
    if host == "localhost" or _address(host) is not None:
        return (host,)
    networks = list(_networks(allowed))
    addresses = await resolve(host)
    for text in addresses:
        address = _address(text)
        if address is None or not (_is_public(address) or any(address in network for network in networks)):
            raise EndpointRefused("this host leads to an address that the operator does not allow")
    return addresses


class EndpointWatch:
    """Judges where an endpoint's host leads before each use: whoever answers for its name may turn it at any time.

    A good answer holds for `seconds`; a bad one for no time at all.
    """

    def __init__(
        self,
        endpoint_url: str,
        allowed: Collection[str],
        resolve: Resolve = addresses_of,
        *,
        seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint_url = endpoint_url
        self._allowed = allowed
        self._resolve = resolve
        self._seconds = seconds
        self._clock = clock
        self._good_until = float("-inf")

    async def require(self) -> None:
        """Raise `EndpointRefused` when the host leads where the operator does not allow it, as of now."""
        if self._clock() < self._good_until:
            return
        await require_public(self._endpoint_url, self._allowed, self._resolve)
        self._good_until = self._clock() + self._seconds


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Say whether the internet routes to it as it stands, or by a NAT64 to what it holds.

    `is_global` alone takes what leads to an IPv4 address inside (6to4, NAT64, `::10.0.0.1`), site-local addresses and groups.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_global and not address.is_multicast and address not in _PROTOCOLS
    if address in _NAT64:
        return _is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address.is_global and address in _UNICAST and address not in _SIX_TO_FOUR


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _networks(allowed: Iterable[str]) -> Iterable[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    for entry in allowed:
        try:
            yield ipaddress.ip_network(entry)
        except ValueError:
            continue
