"""Tokens as `sluice token` signs them, and forged ones."""

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key


@dataclass(frozen=True)
class LocalIssuer:
    """Sign with the key that `sluice init` created in the data folder."""

    data_dir: Path

    @cached_property
    def key(self) -> Ed25519PrivateKey:
        key = load_pem_private_key((self.data_dir / "keys" / "jwt.pem").read_bytes(), password=None)
        assert isinstance(key, Ed25519PrivateKey)
        return key

    def token(
        self, *, key: Any = None, algorithm: str = "EdDSA", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """Return a token that is valid for five minutes; a claim of None is left out."""
        now = int(time.time())
        payload = {"iss": "sluice", "aud": "sluice", "sub": "user-1", "iat": now, "exp": now + 300} | claims
        kept = {name: value for name, value in payload.items() if value is not None}
        return jwt.encode(kept, self.key if key is None else key, algorithm=algorithm, headers=headers)
