"""The signing key of one machine, made by `sluice init`, and the tokens that `sluice token` signs with it. They are verified in `local`."""

import base64
import hashlib
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from sluice.engines.identity.claims import ClaimRules
from sluice.kit.secret_files import SecretFileRefused, load_or_make, read_secret_file

_RESERVED: Final = frozenset({"iss", "aud", "exp", "iat", "nbf", "jti", "name", "scope", "scopes", "sub"})


@dataclass(frozen=True, slots=True)
class LocalKey:
    """An Ed25519 key that signs tokens for one machine."""

    private: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> Ed25519PublicKey:
        """The half that verifies."""
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
        """Answer a token that satisfies `rules` from `now` for `lifetime_seconds`."""
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
        return jwt.encode(claims, self.private, algorithm="EdDSA", headers={"kid": key_id_of(self.public)})


@dataclass(frozen=True, slots=True)
class LoadedLocalKey:
    """A local key, and whether its file was made just now."""

    key: LocalKey
    made: bool


def make_local_key(path: Path) -> LoadedLocalKey:
    """Answer the key at `path`, made at random when there is none. Raises `SecretFileRefused`."""
    file = load_or_make(path, _new_pem)
    return LoadedLocalKey(_read(path, file.content), file.made)


def load_local_key(path: Path) -> LocalKey:
    """Answer the key at `path`; raises `SecretFileRefused` when it is missing or damaged."""
    return _read(path, read_secret_file(path))


def key_id_of(public: Ed25519PublicKey) -> str:
    """Answer the key's thumbprint (RFC 7638, RFC 8037): one id per key, that nobody has to choose."""
    x = base64.urlsafe_b64encode(public.public_bytes_raw()).rstrip(b"=").decode("ascii")
    canonical = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(canonical.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def _new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read(path: Path, content: bytes) -> LocalKey:
    try:
        private = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: a key that wants a password
        raise SecretFileRefused(f"The key file {path} is not a private key in PEM.") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise SecretFileRefused(f"The key file {path} does not hold an Ed25519 key.")
    return LocalKey(private)
