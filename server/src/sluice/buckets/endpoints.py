"""Which S3 endpoints a tenant may name: only hosts on the operator's list, since the service calls them from inside
its own network.
"""

import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

from sluice.kit.host_lookup import look_up

# Returns the addresses of a host, none if it has none.
Resolve = Callable[[str], Awaitable[Collection[str]]]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Addresses of services inside a cloud machine: metadata, credentials, the wire server. A network on the operator's
# list opens such an address only if it is that one address.
_CLOUD: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.0.0/16",  # metadata of most clouds, task credentials of AWS (169.254.170.2)
            "168.63.129.16",  # Azure's wire server, within public space
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "fe80::/10",
            "fd00:ec2::/32",  # AWS
            "fd20:ce::/32",  # Google
        ),
    )
)
# Special-purpose ranges (RFC 6890 and its registries) that `is_global` of some Python release calls global.
_SPECIAL: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.175.48.0/24",
            "224.0.0.0/3",
            "2001::/23",
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")  # all that IANA has assigned (RFC 4291 section 2.4)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # ends in the IPv4 address that is meant (RFC 6052 section 2.1)
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")  # the same (RFC 4291 section 2.5.5.1); deprecated


class EndpointRefused(ValueError):
    """The endpoint is malformed or not on the list. `str()` is one sentence."""


def require_allowed(endpoint_url: str, allowed_hosts: Collection[str]) -> None:
    """Raise `EndpointRefused` unless `endpoint_url` is a bare http(s) origin whose host, or host:port, the operator
    listed.
    """
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
        raise EndpointRefused(
            "this host is not among those that the operator allows; leave endpoint_url out for the provider's own"
        )


async def addresses_of(host: str) -> Collection[str]:
    """Return the addresses that this machine knows for `host`, none when it knows none."""
    try:
        found = await look_up(host)
    except (OSError, UnicodeError):  # the latter for what cannot be a host name
        return ()
    return {str(address[0]).partition("%")[0] for *_, address in found}


def needs_relay(endpoint_url: str) -> bool:
    """Return whether only DNS decides whom a client of this endpoint talks to: plain http, and a name."""
    parts = urlsplit(endpoint_url)
    return parts.scheme == "http" and parts.hostname != "localhost" and _address(parts.hostname or "") is None


async def require_public(
    endpoint_url: str, allowed: Collection[str], resolve: Resolve = addresses_of
) -> Collection[str]:
    """Return the addresses that an endpoint leads to.

    Raise `EndpointRefused` when an allowed host leads into a private network that the operator did not list
    (`10.0.0.0/8`).

    A host that is listed as an address, or as `localhost`, leads where it says. What a name leads to is up to its DNS,
    and can change at any time: `EndpointWatch` asks again.
    """
    host = urlsplit(endpoint_url).hostname or ""
    if host == "localhost" or _address(host) is not None:
        return (host,)
    addresses = await resolve(host)
    require_allowed_addresses(addresses, allowed)
    return addresses


def require_allowed_addresses(addresses: Iterable[str], allowed: Iterable[str]) -> None:
    """Raise `EndpointRefused` unless each address is public, or in a network that the operator listed."""
    networks = list(_networks(allowed))
    for text in addresses:
        address = _address(text)
        if address is None or not _is_allowed(address, networks):
            raise EndpointRefused("this host leads to an address that the operator does not allow")


class EndpointWatch:
    """Checks an endpoint before each use: whether it is still listed, and where its host leads.

    Both may change at any time. Where it leads is cached for `seconds` if it is allowed, and not at all if it is not.
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
        """Raise `EndpointRefused` unless the operator allows the host, and where it leads, now."""
        require_allowed(self._endpoint_url, self._allowed)
        if self._clock() < self._good_until:
            return
        await require_public(self._endpoint_url, self._allowed, self._resolve)
        self._good_until = self._clock() + self._seconds


def _is_allowed(address: _Address, networks: Collection[_Network]) -> bool:
    """Return whether an address is public, or in a network that the operator listed.

    An address that carries another one is also judged by that.
    """
    meant = [address, *_embedded(address)]
    for one in meant:
        if _is_in(one, _CLOUD) and not any(
            _is_in(one, [network]) for network in networks if network.num_addresses == 1
        ):
            return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # the machine connects by IPv4
    return _is_public(address) or _is_in(address, networks)


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64:
        return all(map(_is_public, _embedded(address)))
    if isinstance(address, ipaddress.IPv6Address) and address not in _UNICAST:
        return False
    return address.is_global and not address.is_multicast and not _is_in(address, (*_CLOUD, *_SPECIAL))


def _embedded(address: _Address) -> Sequence[ipaddress.IPv4Address]:
    """Return the IPv4 addresses that a gateway may take an IPv6 address for."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64 or address in _COMPATIBLE:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]


def _is_in(address: _Address, networks: Iterable[_Network]) -> bool:
    return any(address in network for network in networks)


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _networks(allowed: Iterable[str]) -> Iterable[_Network]:
    for entry in allowed:
        try:
            yield ipaddress.ip_network(entry)
        except ValueError:
            continue
