"""Reading a compact JWT strictly and checking its signature. Whose keys are believed, and what claims must say, live elsewhere.

PyJWT does the signature mathematics. What it is lenient about is refused here first: padding, unknown critical extensions,
keys that the token brings along, duplicate JSON names (RFC 7515, RFC 8725).
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import get_default_algorithms

from sluice.engines.identity.protocol import InvalidToken
from sluice.kit.strict_json import NotStrictJson, read_json

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "EdDSA"})
MAX_TOKEN_LENGTH: Final = 8192
_PARTS: Final = 3
_MAX_KEY_ID: Final = 256
_TYPES: Final = frozenset({"jwt", "at+jwt"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
_REFUSED: Final = frozenset({"crit", "jwk", "jku", "x5u", "x5c", "b64", "zip", "enc", "cty"})
"""Keys or addresses of keys that an attacker would choose; extensions, encryption and nesting, none of which is understood here."""
_MATHEMATICS: Final = {name: algorithm for name, algorithm in get_default_algorithms().items() if name in ALGORITHMS}


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A well-formed token of which nothing is believed yet. `signed` is what `signature` must cover."""

    algorithm: str
    key_id: str | None
    claims: Mapping[str, object]
    signed: bytes
    signature: bytes


def read_token(token: str) -> UnverifiedToken:
    """Answer the parts of a compact JWS of at most 8192 characters; raises `InvalidToken`."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise InvalidToken(f"the token is longer than {MAX_TOKEN_LENGTH} characters")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise InvalidToken("the token is not made of three parts")
    header = _read_object(parts[0], "header")
    _refuse_header(header)
    return UnverifiedToken(
        algorithm=_read_algorithm(header),
        key_id=_read_key_id(header),
        claims=_read_object(parts[1], "claims"),
        signed=f"{parts[0]}.{parts[1]}".encode("ascii"),
        signature=_read_part(parts[2], "signature"),
    )


def verify_signature(token: UnverifiedToken, key: PublicKey) -> None:
    """Raise `InvalidToken` unless `key` made the token's signature. The caller has matched algorithm and key."""
    if not _MATHEMATICS[token.algorithm].verify(token.signed, key, token.signature):
        raise InvalidToken("the signature is wrong")


def decode_base64url(text: str) -> bytes:
    """Answer the bytes of `text`, which has no padding, no stray characters and no stray bits; raises `ValueError` otherwise."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != text:
        raise ValueError("not the one base64url form of its bytes")
    return raw


def _refuse_header(header: Mapping[str, object]) -> None:
    refused = sorted(_REFUSED & header.keys())
    if refused:
        raise InvalidToken(f"the header has {', '.join(refused)}")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise InvalidToken("the header's typ is not that of a token")


def _read_algorithm(header: Mapping[str, object]) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm is not accepted")
    return algorithm


def _read_key_id(header: Mapping[str, object]) -> str | None:
    if "kid" not in header:
        return None
    key_id = header["kid"]
    if not isinstance(key_id, str) or not 0 < len(key_id) <= _MAX_KEY_ID:
        raise InvalidToken("the key id is not a short text")
    return key_id


def _read_object(part: str, name: str) -> Mapping[str, object]:
    try:
        value = read_json(_read_part(part, name))
    except NotStrictJson as error:
        raise InvalidToken(f"the {name}: {error}") from error
    if not isinstance(value, dict):
        raise InvalidToken(f"the {name} is not a JSON object")
    return value


def _read_part(part: str, name: str) -> bytes:
    try:
        return decode_base64url(part)
    except ValueError as error:
        raise InvalidToken(f"the {name}: {error}") from error
