"""Reading an issuer's published keys (JWK set, RFC 7517) strictly. Fetching and keeping them live in `jwks_client` and `key_cache`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from sluice.engines.identity.jose import PublicKey, decode_base64url
from sluice.kit.strict_json import NotStrictJson, read_json

MIN_RSA_BITS: Final = 2048
"""112 bits of security (NIST SP 800-57 part 1, table 2); 3072 have 128."""
_MAX_RSA_BITS: Final = 8192  # one check of a larger one costs milliseconds
_COORDINATE_BYTES: Final = 32


class NotJwks(ValueError):
    """The text is not a JWK set. `str()` says why."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key of the issuer and the algorithms it may verify, which is one when the issuer says so (`alg`)."""

    key_id: str | None
    algorithms: frozenset[str]
    public: PublicKey


def read_jwks(raw: bytes, algorithms: frozenset[str], rsa_bits: int = MIN_RSA_BITS) -> tuple[TrustedKey, ...]:
    """Answer those keys of a JWK set that may verify signatures with one of `algorithms`; raises `NotJwks`.

    Issuers publish keys for other purposes and of kinds yet to come beside them, so a key that is not for us is left out. A set
    without any for us is an answer too: then no token of the issuer is to be believed. RSA keys of fewer than `rsa_bits` are not for us.
    """
    try:
        jwks = read_json(raw)
    except NotStrictJson as error:
        raise NotJwks(str(error)) from error
    members = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(members, list):
        raise NotJwks("an object with a list of keys was expected")
    keys = (_read_key(member, algorithms) for member in members if isinstance(member, dict))
    return tuple(key for key in keys if key is not None and not _is_shorter(key.public, rsa_bits))


def _is_shorter(key: PublicKey, rsa_bits: int) -> bool:
    return isinstance(key, RSAPublicKey) and key.key_size < rsa_bits


def pick_key(keys: tuple[TrustedKey, ...], algorithm: str, key_id: str | None) -> TrustedKey | None:
    """Answer the one key that fits a token's header, or None when none does or several do.

    A token without a key id is verifiable only when the issuer has a single key for its algorithm.
    """
    fitting = [key for key in keys if algorithm in key.algorithms and (key_id is None or key.key_id == key_id)]
    return fitting[0] if len(fitting) == 1 else None


def _read_key(jwk: Mapping[str, object], algorithms: frozenset[str]) -> TrustedKey | None:
    kind = _KINDS.get(str(jwk.get("kty")))
    if kind is None:
        return None
    fitting, build = kind
    usable = frozenset(name for name in fitting & algorithms if jwk.get("alg", name) == name)
    key_id = jwk.get("kid")
    if not usable or not isinstance(key_id, str | None) or not _may_verify(jwk):
        return None
    try:
        return TrustedKey(key_id, usable, build(jwk))
    except ValueError:  # cryptography's word for numbers that are no key
        return None


def _may_verify(jwk: Mapping[str, object]) -> bool:
    """`use` and `key_ops` are the issuer's own limits. A published private part (`d`) means anyone can sign with the key."""
    operations = jwk.get("key_ops", ["verify"])
    return jwk.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations and "d" not in jwk


def _rsa(jwk: Mapping[str, object]) -> PublicKey:
    modulus = _number(jwk, "n")
    if not MIN_RSA_BITS <= modulus.bit_length() <= _MAX_RSA_BITS:
        raise ValueError("an RSA key of a size that is not accepted")
    return RSAPublicNumbers(_number(jwk, "e"), modulus).public_key()


def _p256(jwk: Mapping[str, object]) -> PublicKey:
    x, y = _member(jwk, "x"), _member(jwk, "y")
    if jwk.get("crv") != "P-256" or not len(x) == len(y) == _COORDINATE_BYTES:
        raise ValueError("another curve")
    return EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), SECP256R1()).public_key()


def _ed25519(jwk: Mapping[str, object]) -> PublicKey:
    if jwk.get("crv") != "Ed25519":
        raise ValueError("another curve")
    return Ed25519PublicKey.from_public_bytes(_member(jwk, "x"))


def _number(jwk: Mapping[str, object], name: str) -> int:
    return int.from_bytes(_member(jwk, name), "big")


def _member(jwk: Mapping[str, object], name: str) -> bytes:
    text = jwk.get(name)
    if not isinstance(text, str):
        raise ValueError(f"{name} is not a text")  # noqa: TRY004  # one word for every key that is none, as cryptography's
    return decode_base64url(text)


_KINDS: Final[Mapping[str, tuple[frozenset[str], Callable[[Mapping[str, object]], PublicKey]]]] = {
    "RSA": (frozenset({"RS256", "PS256"}), _rsa),
    "EC": (frozenset({"ES256"}), _p256),
    "OKP": (frozenset({"EdDSA"}), _ed25519),
}
"""By key type: the algorithms of such a key, and how one is built. A symmetric key (`oct`) is of no use to who only verifies."""
