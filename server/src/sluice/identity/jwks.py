"""Strict parsing of an issuer's published keys (JWK set, RFC 7517)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicNumbers
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from sluice.identity.tokens import PublicKey, decode_base64url
from sluice.kit.strict_json import NotStrictJson, read_json

MIN_RSA_BITS: Final = 2048  # 112 bits of security (NIST SP 800-57 part 1, table 2); 3072 have 128
_MAX_RSA_BITS: Final = 8192  # a check with a larger key costs milliseconds
_COORDINATE_BYTES: Final = 32


class NotJwks(ValueError):
    """The text is not a JWK set. `str()` says why."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A key of the issuer and the algorithms that it may verify; the issuer can restrict them to one (`alg`)."""

    key_id: str | None
    algorithms: frozenset[str]
    public: PublicKey


def parse_jwks(raw: bytes, algorithms: frozenset[str], rsa_bits: int = MIN_RSA_BITS) -> tuple[TrustedKey, ...]:
    """Return the keys of a JWK set that may verify signatures with one of `algorithms`.

    RSA keys of fewer than `rsa_bits` are left out, and so is any key that cannot be used, because issuers also publish
    keys for other purposes. An empty result is valid: then no token of the issuer is trusted. Raise `NotJwks` if the
    bytes are not a JWK set.
    """
    try:
        jwks = read_json(raw)
    except NotStrictJson as error:
        raise NotJwks(str(error)) from error
    members = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(members, list):
        raise NotJwks("an object with a list of keys was expected")
    keys = (_parse_key(member, algorithms) for member in members if isinstance(member, dict))
    return tuple(
        key
        for key in keys
        if key is not None and not (isinstance(key.public, RSAPublicKey) and key.public.key_size < rsa_bits)
    )


def pick_key(keys: tuple[TrustedKey, ...], algorithm: str, key_id: str | None) -> TrustedKey | None:
    """Return the one key that fits a token's header, or None when none or several do.

    A token without a key id can be verified only when the issuer has a single key for its algorithm.
    """
    fitting = [key for key in keys if algorithm in key.algorithms and (key_id is None or key.key_id == key_id)]
    return fitting[0] if len(fitting) == 1 else None


def _parse_key(jwk: Mapping[str, object], algorithms: frozenset[str]) -> TrustedKey | None:
    key_type = _KEY_TYPES.get(str(jwk.get("kty")))
    if key_type is None:
        return None
    supported, build = key_type
    usable = frozenset(name for name in supported & algorithms if jwk.get("alg", name) == name)
    key_id = jwk.get("kid")
    if not usable or not isinstance(key_id, str | None) or not _may_verify(jwk):
        return None
    try:
        return TrustedKey(key_id, usable, build(jwk))
    except ValueError:  # the numbers are not a key
        return None


def _may_verify(jwk: Mapping[str, object]) -> bool:
    # `use` and `key_ops` are the issuer's own limits. With a published private part (`d`) anyone can sign.
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
        raise ValueError(f"{name} is not a text")  # noqa: TRY004  (one error for every bad key, as in cryptography)
    return decode_base64url(text)


# By key type: its algorithms, and how a key is built. A symmetric key (`oct`) could also sign, so it is never used.
_KEY_TYPES: Final[Mapping[str, tuple[frozenset[str], Callable[[Mapping[str, object]], PublicKey]]]] = {
    "RSA": (frozenset({"RS256", "PS256"}), _rsa),
    "EC": (frozenset({"ES256"}), _p256),
    "OKP": (frozenset({"Ed25519", "EdDSA"}), _ed25519),
}
