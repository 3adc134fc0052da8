"""The limits of an API key beside its scopes: contexts, networks, requests per minute, and the keys it makes."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from sluice.access import KeyLimits, Principal
from sluice.errors import KeyLimited, ServiceUnavailable, TooManyRequests
from sluice.limiter import Exhausted, Limiter, LimiterUnavailable

_WINDOW_SECONDS: Final = 60
_SHOWN: Final = 10
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


@lru_cache(maxsize=1024)
def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Return a network in CIDR notation, or of one address; raise `ValueError`, also if bits of a host are set."""
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.overlaps(_MAPPED) and network.prefixlen >= _MAPPED.prefixlen:
        raise ValueError("an IPv4 address in IPv6 form")  # addresses are compared as IPv4
    return network


def require_context(principal: Principal, context_key: str | None) -> None:
    """Raise `KeyLimited` unless the caller may use this context; None is no context in particular."""
    allowed = principal.limits.contexts
    if allowed and context_key not in allowed:
        found = "nothing" if context_key is None else repr(context_key[:100])
        raise KeyLimited(f"context: expected one of {_listed(allowed)}, found {found}")


def context_of_list(principal: Principal, context_key: str | None) -> str | None:
    """Return the context of which the caller may list what is in it: the one asked for, or the only one of a key.

    None: all. Raise `KeyLimited` for a context that is none of the key's, and if it has several and none was named.
    """
    allowed = principal.limits.contexts
    if context_key is None and len(allowed) == 1:
        return allowed[0]
    require_context(principal, context_key)
    return context_key


def require_address(limits: KeyLimits, address: str) -> None:
    """Raise `KeyLimited` unless a client at `address` may use the key."""
    if limits.networks and not _is_within(address, limits.networks):
        raise KeyLimited(f"address: expected one of the key's networks, found {address or 'no address'}")


def require_within(maker: Principal, limits: KeyLimits) -> None:
    """Raise `KeyLimited` unless a key with `limits` may do no more than the caller that makes or changes it."""
    own, problems = maker.limits, []
    if own.contexts and not (limits.contexts and set(limits.contexts) <= set(own.contexts)):
        problems.append(_beyond("contexts", own.contexts, limits.contexts))
    if own.networks and not (limits.networks and all(_is_part(one, own.networks) for one in limits.networks)):
        problems.append(_beyond("allowed_networks", own.networks, limits.networks))
    most = own.rate_per_minute
    if most is not None and (limits.rate_per_minute is None or limits.rate_per_minute > most):
        found = "none" if limits.rate_per_minute is None else limits.rate_per_minute
        problems.append(f"rate_per_minute: expected at most the {most} of the key that is used, found {found}")
    if problems:
        raise KeyLimited(*problems)


async def take_request(limiter: Limiter, key_id: str, limits: KeyLimits) -> None:
    """Count a request with a key.

    Raise `TooManyRequests` if the key has made as many requests in the last minute as it may, and `ServiceUnavailable`
    if the limiter is unavailable.
    """
    rate = limits.rate_per_minute
    if rate is None:
        return
    try:
        place = await limiter.take(f"request:{key_id}", limit=rate, window_seconds=_WINDOW_SECONDS)
    except LimiterUnavailable as fault:
        raise ServiceUnavailable("rate limiter") from fault
    if isinstance(place, Exhausted):
        raise TooManyRequests(
            errors=["The API key has made as many requests as it may in a minute"],
            retry_after=place.retry_after,
            limit=rate,
        )


def _is_within(address: str, networks: Sequence[str]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:  # of a Unix socket
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    return any(parsed in parse_network(network) for network in networks)


def _is_part(text: str, networks: Sequence[str]) -> bool:
    inner = parse_network(text)
    for network in networks:
        outer = parse_network(network)
        if isinstance(inner, IPv4Network) and isinstance(outer, IPv4Network) and inner.subnet_of(outer):
            return True
        if isinstance(inner, IPv6Network) and isinstance(outer, IPv6Network) and inner.subnet_of(outer):
            return True
    return False


def _beyond(field: str, allowed: Sequence[str], found: Sequence[str]) -> str:
    return f"{field}: expected some of {_listed(allowed)}, found {_listed(found) or 'none'}"


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
