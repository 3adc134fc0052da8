"""A ZIP archive of one file, encrypted with a password (AES-256, AE-2), made while the file is read.

The format is "AES Encryption Information" of WinZip, which 7-Zip and
others open. The file is stored as it is: its compressed size is known before its first byte.
"""

import hashlib
import hmac
import os
import struct
from collections.abc import AsyncIterator
from typing import Final

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB

from sluice.kit.filenames import saved_as

_SALT: Final = 16
_VERIFIER: Final = 2
_CODE: Final = 10
_KEY: Final = 32
_ROUNDS: Final = 1000
_BLOCK: Final = 16
_AES_METHOD: Final = 99
_FLAGS: Final = 0x0801  # encrypted; the name is UTF-8
_VERSION: Final = 51
_DAY_ONE: Final = 0x21  # 1980-01-01: hides when it was downloaded
# Vendor version AE-2, vendor AE, AES-256, stored.
_EXTRA: Final = struct.pack("<HHHHBH", 0x9901, 7, 2, 0x4541, 3, 0)
_LOCAL: Final = struct.Struct("<IHHHHHIIIHH")
_CENTRAL: Final = struct.Struct("<IHHHHHHIIIHHHHHII")
_END: Final = struct.Struct("<IHHHHIIH")
LARGEST: Final = 2**32 - 2**20
"""The maximum size of a file: a larger one needs another form of the archive."""


class ProtectedZip:
    """The archive of a file with a name and a size. Read it once."""

    def __init__(self, name: str, size: int, password: bytes) -> None:
        """Raise `ValueError` for a file that is too large."""
        if size > LARGEST:
            raise ValueError("the file is too large for the archive")
        self._name = saved_as(name).encode()
        self._size = size
        self._salt = os.urandom(_SALT)
        keys = hashlib.pbkdf2_hmac("sha1", password, self._salt, _ROUNDS, 2 * _KEY + _VERIFIER)
        self._verifier = keys[2 * _KEY :]
        # Counter mode with a little-endian counter, which the library's own CTR mode has not.
        self._blocks = Cipher(AES256(keys[:_KEY]), ECB()).encryptor()  # noqa: S305  (the counters are the blocks)
        self._authentic = hmac.new(keys[_KEY : 2 * _KEY], digestmod=hashlib.sha1)
        self._counter = 0
        self._key_stream = b""

    @property
    def size(self) -> int:
        """The size of the whole archive."""
        return len(self._local()) + self._packed_size + len(self._directory())

    async def read(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the archive of these bytes; raise `ValueError` if they are not as many as was said."""
        yield self._local() + self._salt + self._verifier
        size = 0
        async for chunk in chunks:
            size += len(chunk)
            yield self._encrypt(chunk)
        if size != self._size:
            raise ValueError("the file has another size than was said")
        yield self._authentic.digest()[:_CODE] + self._directory()

    @property
    def _packed_size(self) -> int:
        return _SALT + _VERIFIER + self._size + _CODE

    def _encrypt(self, chunk: bytes) -> bytes:
        missing = len(chunk) - len(self._key_stream)
        if missing > 0:
            first = self._counter + 1
            self._counter += -(-missing // _BLOCK)
            counters = b"".join(number.to_bytes(_BLOCK, "little") for number in range(first, self._counter + 1))
            self._key_stream += self._blocks.update(counters)
        used, self._key_stream = self._key_stream[: len(chunk)], self._key_stream[len(chunk) :]
        mixed = int.from_bytes(chunk, "little") ^ int.from_bytes(used, "little")
        encrypted = mixed.to_bytes(len(chunk), "little")
        self._authentic.update(encrypted)
        return encrypted

    def _local(self) -> bytes:
        head = _LOCAL.pack(
            *(0x04034B50, _VERSION, _FLAGS, _AES_METHOD, 0, _DAY_ONE, 0),
            *(self._packed_size, self._size, len(self._name), len(_EXTRA)),
        )
        return head + self._name + _EXTRA

    def _directory(self) -> bytes:
        entry = _CENTRAL.pack(
            *(0x02014B50, _VERSION, _VERSION, _FLAGS, _AES_METHOD, 0, _DAY_ONE, 0),
            *(self._packed_size, self._size, len(self._name), len(_EXTRA), 0, 0, 0, 0, 0),
        )
        entry += self._name + _EXTRA
        begin = len(self._local()) + self._packed_size
        return entry + _END.pack(0x06054B50, 0, 0, 1, 1, len(entry), begin, 0)
