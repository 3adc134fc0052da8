"""Workbooks that are encrypted with the password that Excel tries by itself, in each of the ways that it knows."""

import hashlib
import io
import struct
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import ECB
from msoffcrypto.method.ecma376_agile import ECMA376Agile
from msoffcrypto.method.ecma376_standard import ECMA376Standard
from msoffcrypto.method.rc4 import DocumentRC4
from msoffcrypto.method.rc4_cryptoapi import DocumentRC4CryptoAPI
from msoffcrypto.method.xor_obfuscation import DocumentXOR

from sluice_inspect.formats.xls.format import make_label, make_number, make_record, make_stream
from sluice_inspect.office.compound import Tree, make_compound

PASSWORD = "VelvetSweatshop"
SALT = bytes(range(16))
TWO_SHEETS = [make_number(0, 0, 1), make_label(0, 0, "x") + make_label(1, 0, "y")]
PLAIN_RECORDS = {0x0809, 0x002F}


def agile(document: bytes, password: str = PASSWORD, spins: int = 1000) -> bytes:
    information, key = ECMA376Agile.generate_encryption_parameters(password, None, spins)
    salt = information.keyData.saltValue
    package = ECMA376Agile.encrypt_payload(io.BytesIO(document), information.encryptedKey, key, salt)
    described = ECMA376Agile.get_encryption_information(information, package, key)
    return make_compound({"EncryptedPackage": package, "EncryptionInfo": described})


def standard(document: bytes) -> bytes:
    key = ECMA376Standard.makekey_from_password(PASSWORD, 0x6610, 0x8004, 24, 256, 16, SALT)
    cipher = Cipher(AES256(bytes(key)), ECB()).encryptor()
    header = struct.pack("<8L", 0x24, 0, 0x6610, 0x8004, 256, 24, 0, 0) + "AES\0".encode("utf-16-le")
    information = struct.pack("<HHLL", 4, 2, 0x24, len(header)) + header + struct.pack("<L", 16) + SALT + bytes(52)
    package = len(document).to_bytes(8, "little") + cipher.update(document + bytes(-len(document) % 16))
    return make_compound({"EncryptedPackage": package, "EncryptionInfo": information})


def locked_stream(encryption: bytes, encrypt: Callable[[bytes], bytes]) -> bytes:
    """Return the stream of a workbook whose records are encrypted where they lie, as Excel does."""
    plain = make_stream(TWO_SHEETS, before=make_record(0x2F, encryption))
    stream, whole, at = bytearray(plain), encrypt(plain), 0
    while at < len(plain):
        kind, length = struct.unpack_from("<HH", plain, at)
        start, at = at + 4, at + 4 + length
        if kind not in PLAIN_RECORDS:
            first = start + (4 if kind == 0x85 else 0)
            stream[first:at] = whole[first:at] or obfuscated(plain[first:at], first + length)
    return bytes(stream)


def obfuscated(body: bytes, at: int) -> bytes:
    mask = DocumentXOR.create_xor_array_method1(PASSWORD)
    turned = [(byte << 5 | byte >> 3) & 0xFF for byte in body]
    return bytes(byte ^ mask[(at + index) % 16] for index, byte in enumerate(turned))


def rc4_stream() -> bytes:
    verifier = bytes(range(50, 66))
    digest = hashlib.md5(verifier, usedforsecurity=False).digest()
    sealed = DocumentRC4.decrypt(PASSWORD, SALT, io.BytesIO(verifier + digest), blocksize=1024).read()
    return locked_stream(
        b"\1\0\1\0\1\0" + SALT + sealed,
        lambda plain: DocumentRC4.decrypt(PASSWORD, SALT, io.BytesIO(plain), blocksize=1024).read(),
    )


def crypto_api_stream(bits: int) -> bytes:
    verifier = bytes(range(50, 66))
    digest = hashlib.sha1(verifier, usedforsecurity=False).digest()
    sealed = DocumentRC4CryptoAPI.decrypt(PASSWORD, SALT, bits, io.BytesIO(verifier + digest), blocksize=1024).read()
    header = struct.pack("<8L", 4, 0, 0x6801, 0x8004, bits, 1, 0, 0)
    described = struct.pack("<HHLL", 2, 2, 4, len(header)) + header + struct.pack("<L", 16) + SALT + sealed[:16]
    return locked_stream(
        b"\1\0" + described + struct.pack("<L", 20) + sealed[16:],
        lambda plain: DocumentRC4CryptoAPI.decrypt(PASSWORD, SALT, bits, io.BytesIO(plain), blocksize=1024).read(),
    )


def obfuscated_stream() -> bytes:
    return locked_stream(
        struct.pack("<HHH", 0, DocumentXOR.create_xor_key_method1(PASSWORD), 0x9A0A), lambda _plain: b""
    )


def workbook(stream: bytes, more: Mapping[str, bytes | Tree] = {}) -> bytes:
    return make_compound({"Workbook": stream, **more})
