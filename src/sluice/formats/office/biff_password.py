"""The password under which Excel encrypts workbooks that are only protected against changes ([MS-OFFCRYPTO] 2.3): everyone may read those.

Checks that one password; breaks no other and decrypts no workbook.
"""

import hashlib
import struct
from collections.abc import Iterator
from typing import Final

_PASSWORD: Final = "VelvetSweatshop"  # noqa: S105  (published by the maker of the format)
_OBFUSCATED: Final = b"\0\0"
_STANDARD: Final = b"\1\0\1\0\1\0"
_CRYPTO_API: Final = frozenset({b"\2\0", b"\3\0", b"\4\0"})
_RC4_BITS: Final = 40


def opens_without_asking(lock: bytes) -> bool:
    """Whether readers open a workbook with this encryption record at once. In doubt the answer is False."""
    try:
        if lock.startswith(_OBFUSCATED):
            return int.from_bytes(lock[4:6], "little") == _obfuscation_verifier()
        if lock.startswith(_STANDARD):
            return _opens_standard(lock[6:22], lock[22:38], lock[38:54])
        return lock[2:4] in _CRYPTO_API and _opens_crypto_api(lock[6:])
    except (struct.error, IndexError):
        return False


def _obfuscation_verifier() -> int:
    verifier = 0
    letters = _PASSWORD.encode("ascii")
    for byte in reversed(bytes([len(letters)]) + letters):
        verifier = (verifier >> 14 & 1 | verifier << 1 & 0x7FFF) ^ byte
    return verifier ^ 0xCE4B


def _opens_standard(salt: bytes, verifier: bytes, digest: bytes) -> bool:
    half = _md5(_PASSWORD.encode("utf-16-le"))[:5]
    key = _md5(_md5((half + salt) * 16)[:5] + bytes(4))
    stream = _rc4(key)
    plain = _decoded(verifier, stream)
    return _md5(plain) == _decoded(digest, stream)


def _opens_crypto_api(header: bytes) -> bool:
    size: int = struct.unpack_from("<4xL", header)[0]
    bits: int = struct.unpack_from("<L", header, 8 + 16)[0] or _RC4_BITS
    salt_bytes, salt, verifier, digest_bytes = struct.unpack_from("<L16s16sL", header, 8 + size)
    digest = header[8 + size + 40 : 8 + size + 40 + digest_bytes]
    key = _sha1(_sha1(salt[:salt_bytes] + _PASSWORD.encode("utf-16-le")) + bytes(4))[: bits // 8]
    stream = _rc4(key.ljust(16, b"\0") if bits == _RC4_BITS else key)
    return _sha1(_decoded(verifier, stream)) == _decoded(digest, stream)[:20]


def _rc4(key: bytes) -> Iterator[int]:
    state, mixed = list(range(256)), 0
    for index in range(256):
        mixed = (mixed + state[index] + key[index % len(key)]) & 0xFF
        state[index], state[mixed] = state[mixed], state[index]
    first = second = 0
    while True:
        first = (first + 1) & 0xFF
        second = (second + state[first]) & 0xFF
        state[first], state[second] = state[second], state[first]
        yield state[(state[first] + state[second]) & 0xFF]


def _decoded(data: bytes, stream: Iterator[int]) -> bytes:
    return bytes(byte ^ next(stream) for byte in data)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
