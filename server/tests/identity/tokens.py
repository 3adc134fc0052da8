"""Valid and forged tokens, made part by part."""

import base64
import functools
import json
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from sluice.identity.tokens import ClaimRules

RULES = ClaimRules(issuer="https://issuer.example", audience="sluice", tenant_claim="tenant_id")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
CLAIMS: dict[str, Any] = {"iss": RULES.issuer, "aud": RULES.audience, "sub": "user-1", "tenant_id": "ten_1"}
CLAIMS |= {"exp": int(NOW.timestamp()) + 60}

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def at_now() -> datetime:
    return NOW


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@functools.cache
def _make_key(kind: str, name: str, bits: int) -> PrivateKey:
    if kind == "rsa":
        return rsa.generate_private_key(65537, bits)
    return ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else ed25519.Ed25519PrivateKey.generate()


def rsa_key(name: str = "one", bits: int = 2048) -> PrivateKey:
    return _make_key("rsa", name, bits)


def ec_key(name: str = "one") -> PrivateKey:
    return _make_key("ec", name, 256)


def ed_key(name: str = "one") -> ed25519.Ed25519PrivateKey:
    made = _make_key("ed", name, 256)
    assert isinstance(made, ed25519.Ed25519PrivateKey)
    return made


def key_for(algorithm: str, name: str = "one") -> PrivateKey:
    if algorithm == "ES256":
        return ec_key(name)
    return ed_key(name) if algorithm in {"EdDSA", "Ed25519"} else rsa_key(name)


def jwk(private: PrivateKey, **members: object) -> dict[str, Any]:
    """Return the public key as a JWK with additional or other members; a member set to None is left out."""
    public = private.public_key()
    public_jwk: dict[str, Any]
    if isinstance(public, rsa.RSAPublicKey):
        numbers = public.public_numbers()
        public_jwk = {"kty": "RSA", "n": b64(numbers.n.to_bytes((numbers.n.bit_length() + 7) // 8, "big")), "e": "AQAB"}
    elif isinstance(public, ec.EllipticCurvePublicKey):
        point = public.public_numbers()
        x, y = b64(point.x.to_bytes(32, "big")), b64(point.y.to_bytes(32, "big"))
        public_jwk = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
    else:
        public_jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(public.public_bytes_raw())}
    return {name: value for name, value in (public_jwk | members).items() if value is not None}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def forge(private: PrivateKey, header: object, claims: object, *, algorithm: str = "EdDSA") -> str:
    """Return a token with any header and claims (bytes are used unchanged) and a valid signature of `algorithm`."""
    parts = [part if isinstance(part, bytes) else json.dumps(part).encode() for part in (header, claims)]
    signed = ".".join(b64(part) for part in parts)
    by_pyjwt = "EdDSA" if algorithm == "Ed25519" else algorithm  # which does not know the name of RFC 9864
    return f"{signed}.{b64(get_default_algorithms()[by_pyjwt].sign(signed.encode(), private))}"


def token(algorithm: str = "EdDSA", *, key: str = "one", header: dict[str, Any] | None = None, **claims: Any) -> str:
    """Return a valid token signed by the key `key`; a claim set to None is left out."""
    payload = {name: value for name, value in (CLAIMS | claims).items() if value is not None}
    whole_header = {"alg": algorithm, "typ": "JWT"} | (header or {})
    return forge(key_for(algorithm, key), whole_header, payload, algorithm=algorithm)
