"""Tokens of this machine: the signing key that `sluice init` creates, signing for `sluice token`, and verification."""

import base64
import hashlib
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from sluice.identity.protocol import Claims, InvalidToken
from sluice.identity.tokens import ClaimRules, parse_token, validate_claims, verify_signature
from sluice.kit.clock import Clock, utc_now
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.secret_files import SecretFileRefused, SecretPlace, load_or_make, read_secret

_ALGORITHM: Final = "EdDSA"
_RESERVED: Final = frozenset({"iss", "aud", "exp", "iat", "nbf", "jti", "name", "scope", "scopes", "sub"})


@dataclass(frozen=True, slots=True)
class LocalKey:
    """An Ed25519 key that signs tokens for one machine."""

    private: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> Ed25519PublicKey:
        """The public key."""
        return self.private.public_key()

    def sign(
        self,
        rules: ClaimRules,
        *,
        tenant_id: str,
        subject: str,
        name: str,
        scopes: Collection[str],
        lifetime_seconds: int,
        now: datetime,
    ) -> str:
        """Return a token that satisfies `rules` from `now` for `lifetime_seconds`.

        Raise `ValueError` if the lifetime is shorter than a second, or if the claim of the tenant has another meaning.
        """
        if lifetime_seconds < 1:
            raise ValueError("a token lives for at least a second")
        if rules.tenant_claim in _RESERVED:
            raise ValueError(f"the claim {rules.tenant_claim} has another meaning and cannot name the tenant")
        issued = int(now.timestamp())
        claims = {
            "iss": rules.issuer,
            "aud": rules.audience,
            "sub": subject,
            "name": name,
            "scope": " ".join(sorted(scopes)),
            "iat": issued,
            "exp": issued + lifetime_seconds,
            "jti": secrets.token_urlsafe(16),
            rules.tenant_claim: tenant_id,
        }
        return jwt.encode(claims, self.private, algorithm=_ALGORITHM, headers={"kid": key_id_of(self.public)})


@dataclass(frozen=True, slots=True)
class LoadedLocalKey:
    """A local key, and whether its file was created just now."""

    key: LocalKey
    made: bool


def make_local_key(place: SecretPlace) -> LoadedLocalKey:
    """Load the key; create a random one when there is none. Raise `SecretFileRefused`."""
    file = load_or_make(place, _new_pem)
    return LoadedLocalKey(_parse_key(place, file.content), file.made)


def load_local_key(place: SecretPlace) -> LocalKey:
    """Load the key; raise `SecretFileRefused` when it is missing or damaged."""
    return _parse_key(place, read_secret(place))


def key_id_of(public: Ed25519PublicKey) -> str:
    """Return the key's thumbprint (RFC 7638, RFC 8037), so that no id has to be chosen."""
    x = base64.urlsafe_b64encode(public.public_bytes_raw()).rstrip(b"=").decode("ascii")
    canonical = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(canonical.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def _new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _parse_key(place: SecretPlace, content: bytes) -> LocalKey:
    try:
        private = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: the key is encrypted with a password
        raise SecretFileRefused(f"The key {place} is not a private key in PEM.") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SecretFileRefused(f"The key {place} does not hold an Ed25519 key.")
    return LocalKey(private)


class LocalVerifier:
    """A `TokenVerifier` with one Ed25519 key. Uses no network."""

    def __init__(self, public: Ed25519PublicKey, rules: ClaimRules, *, clock: Clock = utc_now) -> None:
        self.issuer = rules.issuer
        self._public = public
        self._key_id = key_id_of(public)
        self._rules = rules
        self._clock = clock

    async def verify(self, token: str) -> Claims:
        """See `TokenVerifier.verify`."""
        unverified = parse_token(token)
        if unverified.algorithm != _ALGORITHM:
            raise InvalidToken("the algorithm is not the issuer's")
        if unverified.key_id not in {None, self._key_id}:
            raise InvalidToken("the key is not the issuer's")
        verify_signature(unverified, self._public)
        return validate_claims(unverified.claims, self._rules, now=self._clock().timestamp())

    async def health(self) -> EngineHealth:
        """See `TokenVerifier.health`."""
        return EngineHealth(kind="identity", name="local", state=EngineState.UP, detail=f"issuer {self.issuer}")

    async def aclose(self) -> None:
        """See `TokenVerifier.aclose`."""
