"""Encryption of small secrets at rest: AES-256-GCM with a keyring.

How the keys are stored is decided in `keyring_file`.

    blob = base64url( version 1 │ length of key id │ key id │ nonce, 12 bytes │ ciphertext and tag )

The tag makes the ciphertext 16 bytes longer than the secret. The nonce is random: NIST SP 800-38D allows 2³² seals
under one key, which no installation reaches with the secrets of buckets.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_VERSION: Final = 1
_FIXED_BYTES: Final = 2  # version and length of the key id
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_DOMAIN: Final = b"sluice sealed secret"
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_BLOB: Final = re.compile(r"[A-Za-z0-9_-]+")


class CannotOpen(Exception):
    """The blob was changed, is bound to another place, or its key is missing. `str()` is one safe sentence."""


class UnknownKey(CannotOpen):
    """The blob names a key that is not on the keyring; a newer keyring may have it."""


class Sealer(Protocol):
    """Encrypts and decrypts secrets, each bound to its place."""

    def seal(self, plaintext: str, *, bound_to: tuple[str, ...]) -> str:
        """Return an ASCII blob that opens only with the same `bound_to`, such as (tenant id, config id, field name)."""
        ...

    def open(self, blob: str, *, bound_to: tuple[str, ...]) -> str:
        """Return the secret; raise `CannotOpen`."""
        ...

    def is_current(self, blob: str) -> bool:
        """Return whether `blob` was sealed with the primary key. Others should be sealed again after a rotation."""
        ...


class Keyring:
    """Keys by id: the primary one seals, the others open what they sealed earlier. Immutable; its repr shows no key."""

    def __init__(self, keys: Mapping[str, bytes], primary: str) -> None:
        """Raise `ValueError` unless each key has 32 bytes and an id of 1 to 32 letters, digits, `_` and `-`."""
        if primary not in keys:
            raise ValueError("the primary key is not on the ring")
        if not all(_KEY_ID.fullmatch(key_id) for key_id in keys):
            raise ValueError("a key id has 1 to 32 letters, digits, _ and -")
        if not all(len(key) == KEY_BYTES for key in keys.values()):
            raise ValueError(f"a key has {KEY_BYTES} bytes")
        self._keys = dict(keys)
        self._primary = primary

    def __repr__(self) -> str:
        return f"Keyring(ids={sorted(self._keys)}, primary={self._primary!r})"

    @property
    def primary(self) -> str:
        """The id of the key that seals."""
        return self._primary

    @property
    def key_ids(self) -> frozenset[str]:
        """The ids of all keys on the ring."""
        return frozenset(self._keys)

    def seal(self, plaintext: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.seal`; two seals of one secret differ."""
        header = _header(self._primary)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = encrypt(self._keys[self._primary], nonce, plaintext.encode(), _associated_data(header, bound_to))
        return base64.urlsafe_b64encode(header + nonce + sealed).rstrip(b"=").decode("ascii")

    def open(self, blob: str, *, bound_to: tuple[str, ...]) -> str:
        """See `Sealer.open`; raise `UnknownKey` when the blob's key is not on the keyring."""
        key_id, body = _split(blob)
        key = self._keys.get(key_id)
        if key is None:
            raise UnknownKey(f"The secret is sealed with the key {key_id}, which is not on the keyring.")
        aad = _associated_data(_header(key_id), bound_to)
        return decrypt(key, body[:_NONCE_BYTES], body[_NONCE_BYTES:], aad).decode()

    def is_current(self, blob: str) -> bool:
        """See `Sealer.is_current`."""
        return _split(blob)[0] == self._primary


def encrypt(key: bytes, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
    """Return ciphertext and tag, AES-256-GCM (NIST SP 800-38D). A nonce must never be used twice with one key."""
    return AESGCM(key).encrypt(nonce, plaintext, aad)


def decrypt(key: bytes, nonce: bytes, sealed: bytes, aad: bytes) -> bytes:
    """Return the plaintext of what `encrypt` returned; raise `CannotOpen` when any part differs."""
    try:
        return AESGCM(key).decrypt(nonce, sealed, aad)
    except InvalidTag as error:
        raise CannotOpen("The secret was changed, or was sealed for another place.") from error


def _header(key_id: str) -> bytes:
    return bytes([_VERSION, len(key_id)]) + key_id.encode("ascii")


def _associated_data(header: bytes, bound_to: tuple[str, ...]) -> bytes:
    if not bound_to or not all(bound_to):
        raise ValueError("a secret is bound to at least one place, and no part of it is empty")
    # Each part follows its length, so that no two places have the same bytes: ("ab", "c") is not ("a", "bc").
    parts = [_DOMAIN, header, *(part.encode() for part in bound_to)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _split(blob: str) -> tuple[str, bytes]:
    """Return the key id and the rest; raise `CannotOpen` for anything that `seal` cannot have returned."""
    raw = _decode(blob)
    if len(raw) < _FIXED_BYTES or raw[0] != _VERSION:
        raise CannotOpen("The secret is not sealed in a form that this version knows.")
    body_at = _FIXED_BYTES + raw[1]
    key_id, body = raw[_FIXED_BYTES:body_at].decode("latin-1"), raw[body_at:]
    if not _KEY_ID.fullmatch(key_id) or len(body) < _NONCE_BYTES + _TAG_BYTES:
        raise CannotOpen("The secret is cut short or damaged.")
    return key_id, body


def _decode(blob: str) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(blob + "=" * (-len(blob) % 4)) if _BLOB.fullmatch(blob) else b""
    except binascii.Error:
        raw = b""
    if not raw or base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != blob:
        raise CannotOpen("The secret is not in base64url.")
    return raw
