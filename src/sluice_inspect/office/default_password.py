"""Whether an encrypted Office Open XML document opens with the password that Excel tries by itself ([MS-OFFCRYPTO])."""
# Excel encrypts workbooks that are only protected against changes with it, and asks nobody. Nothing is decrypted here
# but what proves the password: five blocks of AES, for which no library is loaded into the processes that parse files.

import base64
import binascii
import hashlib
import io
import struct
from collections.abc import Mapping
from typing import Final

from sluice_inspect.report import InspectionError, Limits
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget, parse_xml

DEFAULT_PASSWORD: Final = "VelvetSweatshop"  # noqa: S105  (it is no secret)
_AGILE: Final = b"\x04\x00\x04\x00"
_STANDARD_MINOR: Final = b"\x02\x00"
_HEAD_BYTES: Final = 8
_STANDARD_SPINS: Final = 50_000
_SPINS_MOST: Final = 1_000_000  # writers use 100,000, which takes 0.1 s
_HASHES: Final = {"SHA1": "sha1", "SHA-1": "sha1", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512"}
_INPUT_BLOCK: Final = bytes.fromhex("fea7d2763b4b9e79")
_VALUE_BLOCK: Final = bytes.fromhex("d7aa0f6d3061344e")
_KEY_BYTES: Final = frozenset({16, 24, 32})
_VERIFIER_BYTES: Final = 64
_BLOCK: Final = 16


def opens_with_default_password(info: bytes, limits: Limits) -> bool:
    """Return whether the stream `EncryptionInfo` accepts the password. False if it is of a kind not known here."""
    try:
        if info.startswith(_AGILE):
            key = _EncryptedKey()
            parse_xml(io.BytesIO(info[_HEAD_BYTES:]), limits, target=key)
            return _accepts_agile(key.attributes)
        return info[2:4] == _STANDARD_MINOR and _accepts_standard(info)
    except (InspectionError, ValueError, KeyError, struct.error, binascii.Error):
        return False


class _EncryptedKey(XmlTarget):
    """Keeps what the first password of an agile encryption is checked by."""

    def __init__(self) -> None:
        self.attributes: dict[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}encryptedKey"):
            self.attributes = dict(attributes)
            raise StopParsing


def _accepts_agile(attributes: Mapping[str, str]) -> bool:
    salt = base64.b64decode(attributes["saltValue"])
    algorithm = _HASHES[attributes["hashAlgorithm"].upper()]
    spins, key_bytes = int(attributes["spinCount"]), int(attributes["keyBits"]) // 8
    if spins > _SPINS_MOST or key_bytes not in _KEY_BYTES or attributes["cipherAlgorithm"] != "AES":
        return False
    spun = _spin(algorithm, salt, spins)

    def decrypt(block: bytes, name: str) -> bytes:
        key = hashlib.new(algorithm, spun + block).digest()[:key_bytes].ljust(key_bytes, b"\x36")
        return _decrypt_blocks(key, base64.b64decode(attributes[name])[:_VERIFIER_BYTES], salt[:16].ljust(16, b"\x36"))

    given = decrypt(_INPUT_BLOCK, "encryptedVerifierHashInput")[: len(salt)]
    expected = hashlib.new(algorithm, given).digest()
    return decrypt(_VALUE_BLOCK, "encryptedVerifierHashValue").startswith(expected)


def _accepts_standard(info: bytes) -> bool:
    (header_bytes,) = struct.unpack_from("<L", info, _HEAD_BYTES)
    key_bytes = struct.unpack_from("<L", info, 28)[0] // 8
    verifier = info[12 + header_bytes :]
    salt, given, expected = verifier[4:20], verifier[20:36], verifier[40:72]
    if key_bytes not in _KEY_BYTES:
        return False
    last = (
        hashlib.sha1(_spin("sha1", salt, _STANDARD_SPINS) + bytes(4), usedforsecurity=False).digest().ljust(64, b"\0")
    )
    key = b"".join(
        hashlib.sha1(bytes(byte ^ pad for byte in last), usedforsecurity=False).digest() for pad in (0x36, 0x5C)
    )
    decrypted = _decrypt_blocks(key[:key_bytes], given + expected)
    return decrypted[16:36] == hashlib.sha1(decrypted[:16], usedforsecurity=False).digest()


def _spin(algorithm: str, salt: bytes, spins: int) -> bytes:
    digest = hashlib.new(algorithm, salt + DEFAULT_PASSWORD.encode("utf-16-le"), usedforsecurity=False).digest()
    new = getattr(hashlib, algorithm)
    for count in range(spins):
        digest = new(count.to_bytes(4, "little") + digest).digest()
    return digest


def _decrypt_blocks(key: bytes, data: bytes, chained_to: bytes = b"") -> bytes:
    """Decrypt whole blocks by AES (FIPS 197), each chained to the one before if there is one to begin with."""
    rounds, decrypted, previous = _expand(key), bytearray(), chained_to
    for at in range(0, len(data) - _BLOCK + 1, _BLOCK):
        block = data[at : at + _BLOCK]
        state = [byte ^ pad for byte, pad in zip(block, rounds[-1], strict=True)]
        for number in range(len(rounds) - 2, -1, -1):
            # rows back, bytes back, round key, columns back
            state = [_INVERSE[state[(index - 4 * (index % 4)) % _BLOCK]] for index in range(_BLOCK)]
            state = [byte ^ pad for byte, pad in zip(state, rounds[number], strict=True)]
            if number:
                state = [
                    _times(state[index], 14)
                    ^ _times(state[index // 4 * 4 + (index + 1) % 4], 11)
                    ^ _times(state[index // 4 * 4 + (index + 2) % 4], 13)
                    ^ _times(state[index // 4 * 4 + (index + 3) % 4], 9)
                    for index in range(_BLOCK)
                ]
        decrypted += bytes(byte ^ pad for byte, pad in zip(state, previous or bytes(_BLOCK), strict=True))
        previous = block if chained_to else b""
    return bytes(decrypted)


def _expand(key: bytes) -> list[bytes]:
    """Return the keys of all rounds."""
    words, length, constant = [key[at : at + 4] for at in range(0, len(key), 4)], len(key) // 4, 1
    while len(words) < 4 * (length + 7):
        word = words[-1]
        if len(words) % length == 0:
            word = bytes(_SUBSTITUTION[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = _times(constant, 2)
        elif length > 6 and len(words) % length == 4:
            word = bytes(_SUBSTITUTION[byte] for byte in word)
        words.append(bytes(one ^ other for one, other in zip(words[-length], word, strict=True)))
    return [b"".join(words[at : at + 4]) for at in range(0, len(words), 4)]


def _times(one: int, other: int) -> int:
    """Multiply in the field of 256 elements."""
    product = 0
    while other:
        product ^= one if other & 1 else 0
        one = one << 1 ^ (0x11B if one & 0x80 else 0)
        other >>= 1
    return product


def _substitutions() -> bytes:
    powers = [1]
    while len(powers) < 255:
        powers.append(_times(powers[-1], 3))  # 3 generates all elements but 0
    inverse = {0: 0} | {power: powers[-at % 255] for at, power in enumerate(powers)}
    turned = ((value | value << 8) for value in (inverse[one] for one in range(256)))
    return bytes((t ^ t >> 7 ^ t >> 6 ^ t >> 5 ^ t >> 4 ^ 0x63) & 0xFF for t in turned)


_SUBSTITUTION: Final = _substitutions()
_INVERSE: Final = bytes(_SUBSTITUTION.index(value) for value in range(256))
