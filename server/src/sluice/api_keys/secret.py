"""The text of an API key, and of an upload token: how one is made, parsed and compared.

sl_live_<12 public id>_<43 secret><6 check>        70 ASCII characters; `sl_test_` for test keys, `ut_` for tokens

The secret is a 256-bit random number in base 62. The check is the CRC-32 of everything before it, in base 62: a
mistyped key is refused without asking the database, and secret scanners can recognize a key. Only the SHA-256 of the
secret is stored: with 256 random bits there is nothing to guess, so a slow hash would cost the service and not the
attacker.
"""

import hashlib
import hmac
import secrets
import zlib
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LETTERS: Final = frozenset(_ALPHABET)
_ID_LENGTH: Final = 12
_SECRET_LENGTH: Final = 43
_CHECK_LENGTH: Final = 6
_SECRET_BITS: Final = 256


class KeyMode(StrEnum):
    """Files of a `test` key count against no plan limit and are purged after a day."""

    LIVE = "live"
    TEST = "test"


class SecretKind(StrEnum):
    """The first two letters of each kind of credential."""

    API_KEY = "sl"
    UPLOAD_TOKEN = "ut"  # noqa: S105  (no secret)


_MARKS: Final = {kind: {f"{kind.value}_{mode.value}_": mode for mode in KeyMode} for kind in SecretKind}
_MARK_LENGTH: Final = len("sl_live_")
_PREFIX_LENGTH: Final = _MARK_LENGTH + _ID_LENGTH
KEY_LENGTH: Final = _PREFIX_LENGTH + 1 + _SECRET_LENGTH + _CHECK_LENGTH


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key. `text` is shown to its owner once and kept nowhere; the rest is what a row holds."""

    text: str = field(repr=False)
    public_id: str
    key_prefix: str
    secret_hash: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A well-formed key as a caller presents it, not yet verified.

    The row is found by `key_prefix`, which holds the mode: the owner of a live key can compute the check of the same
    key as a test key, so a lookup by `public_id` alone would have to compare the modes too.
    """

    mode: KeyMode
    public_id: str
    key_prefix: str
    secret_hash: bytes = field(repr=False)


def new_key(mode: KeyMode, kind: SecretKind = SecretKind.API_KEY) -> IssuedKey:
    """Return a new random key, or a token."""
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))
    secret = _base62(secrets.randbits(_SECRET_BITS), _SECRET_LENGTH)
    key_prefix = f"{kind.value}_{mode.value}_{public_id}"
    body = f"{key_prefix}_{secret}"
    return IssuedKey(text=body + _check(body), public_id=public_id, key_prefix=key_prefix, secret_hash=_hash(secret))


def parse_key(text: str, kind: SecretKind = SecretKind.API_KEY) -> PresentedKey | None:
    """Return the key in `text`, or None if no key has this form or its check is wrong. The length bounds the work."""
    mode = _MARKS[kind].get(text[:_MARK_LENGTH])
    if mode is None or len(text) != KEY_LENGTH or text[_PREFIX_LENGTH] != "_":
        return None
    public_id, rest = text[_MARK_LENGTH:_PREFIX_LENGTH], text[_PREFIX_LENGTH + 1 :]
    if not (_LETTERS.issuperset(public_id) and _LETTERS.issuperset(rest)):
        return None
    if _check(text[:-_CHECK_LENGTH]) != text[-_CHECK_LENGTH:]:
        return None
    secret_hash = _hash(rest[:_SECRET_LENGTH])
    return PresentedKey(mode=mode, public_id=public_id, key_prefix=text[:_PREFIX_LENGTH], secret_hash=secret_hash)


def has_key_form(text: str, kind: SecretKind = SecretKind.API_KEY) -> bool:
    """Return whether `text` was meant as such a key rather than a JWT. The key may still be wrong."""
    return text[:_MARK_LENGTH] in _MARKS[kind]


def same_secret(stored_hash: bytes, presented: PresentedKey) -> bool:
    """Return whether the presented secret is the stored one, in constant time."""
    return hmac.compare_digest(stored_hash, presented.secret_hash)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _check(body: str) -> str:
    # CRC-32 finds every change of one character, a burst of at most 8 bits: it finds all bursts up to 32.
    return _base62(zlib.crc32(body.encode("ascii")), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[digit])
    return "".join(reversed(letters))
