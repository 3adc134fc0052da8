"""JSON Web Tokens: strict parsing of the compact form, the signature, and the rules for claims.

Whose keys are trusted is decided by the verifiers. PyJWT computes the signatures. What it is lenient about is refused
here first: padding, unknown critical extensions, keys that the token brings along, duplicate JSON names (RFC 7515, RFC
8725).
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

from sluice.identity.protocol import Claims, InvalidToken
from sluice.kit.strict_json import NotStrictJson, read_json
from sluice.kit.text import TENANT_ID_RULE, is_tenant_id

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "Ed25519", "EdDSA"})
MAX_TOKEN_LENGTH: Final = 8192
# Of a token that the issuer sends itself, not a client: it may name every group of a user.
MAX_ID_TOKEN_LENGTH: Final = 65_536
_PARTS: Final = 3
_MAX_KEY_ID: Final = 256
_TYPES: Final = frozenset({"jwt", "at+jwt"})
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+")
# Keys, or addresses of keys, that an attacker would choose; extensions, encryption and nesting, which are not
# supported.
_REFUSED_HEADERS: Final = frozenset({"crit", "jwk", "jku", "x5u", "x5c", "b64", "zip", "enc", "cty"})
_KNOWN: Final = get_default_algorithms()
# PyJWT does not know Ed25519 by its name of RFC 9864.
_VERIFIERS: Final = {name: _KNOWN["EdDSA" if name == "Ed25519" else name] for name in ALGORITHMS}
_MAX_TEXT: Final = 255
_LEEWAY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class UnverifiedToken:
    """A well-formed token of which nothing is trusted yet. `signature` must cover `signed`."""

    algorithm: str
    key_id: str | None
    claims: Mapping[str, object]
    signed: bytes
    signature: bytes


def parse_token(token: str, max_length: int = MAX_TOKEN_LENGTH) -> UnverifiedToken:
    """Parse a compact JWS of at most `max_length` characters; raise `InvalidToken`."""
    if len(token) > max_length:
        raise InvalidToken(f"the token is longer than {max_length} characters")
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise InvalidToken("the token is not made of three parts")
    header = _parse_object(parts[0], "header")
    refused = sorted(_REFUSED_HEADERS & header.keys())
    if refused:
        raise InvalidToken(f"the header has {', '.join(refused)}")
    token_type = header.get("typ", "JWT")
    if not isinstance(token_type, str) or token_type.lower() not in _TYPES:
        raise InvalidToken("the header's typ is not that of a token")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise InvalidToken("the algorithm is not accepted")
    return UnverifiedToken(
        algorithm=algorithm,
        key_id=_parse_key_id(header),
        claims=_parse_object(parts[1], "claims"),
        signed=f"{parts[0]}.{parts[1]}".encode("ascii"),
        signature=_decode_part(parts[2], "signature"),
    )


def verify_signature(token: UnverifiedToken, key: PublicKey) -> None:
    """Raise `InvalidToken` unless `key` made the token's signature. The caller has matched algorithm and key."""
    if not _VERIFIERS[token.algorithm].verify(token.signed, key, token.signature):
        raise InvalidToken("the signature is wrong")


def decode_base64url(text: str) -> bytes:
    """Decode `text`, which must be the one base64url form of its bytes, without padding; raise `ValueError`."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("not base64url")
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise ValueError("not base64url") from error
    if base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != text:
        raise ValueError("not the one base64url form of its bytes")
    return raw


def _parse_key_id(header: Mapping[str, object]) -> str | None:
    if "kid" not in header:
        return None
    key_id = header["kid"]
    if not isinstance(key_id, str) or not 0 < len(key_id) <= _MAX_KEY_ID:
        raise InvalidToken("the key id is not a short text")
    return key_id


def _parse_object(part: str, name: str) -> Mapping[str, object]:
    try:
        value = read_json(_decode_part(part, name))
    except NotStrictJson as error:
        raise InvalidToken(f"the {name}: {error}") from error
    if not isinstance(value, dict):
        raise InvalidToken(f"the {name} is not a JSON object")
    return value


def _decode_part(part: str, name: str) -> bytes:
    try:
        return decode_base64url(part)
    except ValueError as error:
        raise InvalidToken(f"the {name}: {error}") from error


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The required issuer and audience of a token, and the claim that names the tenant.

    `leeway` is in seconds, for clocks that differ: it widens `nbf` and `iat`, but not the expiry.
    """

    issuer: str
    audience: str
    tenant_claim: str
    leeway: float = _LEEWAY_SECONDS


def validate_claims(claims: Mapping[str, object], rules: ClaimRules, *, now: float) -> Claims:
    """Return the claims if all rules hold at `now` (seconds since 1970, UTC); raise `InvalidToken`."""
    if claims.get("iss") != rules.issuer:
        raise InvalidToken("the issuer is another one")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(name, str) for name in audiences):
        raise InvalidToken("the audience is neither a text nor a list of texts")
    if rules.audience not in audiences:
        raise InvalidToken("the token is meant for another audience")
    _check_times(claims, rules.leeway, now)
    subject = _text_claim(claims, "sub")
    return Claims(
        issuer=rules.issuer,
        subject=subject,
        tenant_id=_tenant_claim(claims, rules.tenant_claim),
        # A name is only displayed, so one that cannot be displayed is replaced by the next best.
        name=next((str(claims[claim]) for claim in ("name", "email") if _is_plain(claims.get(claim))), subject),
        scopes=_scopes(claims),
    )


def _check_times(claims: Mapping[str, object], leeway: float, now: float) -> None:
    expires = _time_claim(claims, "exp")
    if expires is None:
        raise InvalidToken("the token has no expiry")
    if now >= expires:
        raise InvalidToken("the token has expired")
    for claim in ("nbf", "iat"):
        moment = _time_claim(claims, claim)
        if moment is not None and moment > now + leeway:
            raise InvalidToken(f"the token's {claim} is still to come")


def _time_claim(claims: Mapping[str, object], claim: str) -> float | None:
    if claim not in claims:
        return None
    moment = claims[claim]
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise InvalidToken(f"the token's {claim} is not a number")
    return moment


def _text_claim(claims: Mapping[str, object], claim: str) -> str:
    text = claims.get(claim)
    if not _is_plain(text):
        raise InvalidToken(f"the token's {claim} is not a plain text of 1 to {_MAX_TEXT} characters")
    return str(text)


def _tenant_claim(claims: Mapping[str, object], claim: str) -> str:
    tenant_id = claims.get(claim)
    if not isinstance(tenant_id, str) or not is_tenant_id(tenant_id):
        raise InvalidToken(f"the token's {claim} is not {TENANT_ID_RULE}")
    return tenant_id


def _is_plain(text: object) -> bool:
    """Return whether it is a text without control characters, line ends and bidirectional marks, and not blank."""
    return isinstance(text, str) and len(text) <= _MAX_TEXT and text.isprintable() and bool(text.strip())


def _scopes(claims: Mapping[str, object]) -> frozenset[str] | None:
    # `scope` is the standard's claim (RFC 8693) and limits this token, so it wins over a `scopes` beside it.
    if "scope" in claims:
        return _split_scopes(claims["scope"])
    if "scopes" not in claims:
        return None
    scopes = claims["scopes"]
    if not isinstance(scopes, list):
        return _split_scopes(scopes)
    return frozenset(word for scope in scopes for word in _split_scopes(scope))


def _split_scopes(text: object) -> frozenset[str]:
    if not isinstance(text, str):
        raise InvalidToken("the scopes are not texts")
    return frozenset(text.split(" ")) - {""}
