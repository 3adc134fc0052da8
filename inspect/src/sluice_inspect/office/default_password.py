"""Documents that are encrypted with the password which Excel tries by itself ([MS-OFFCRYPTO] 2.3, 2.4).

Excel encrypts workbooks that are only protected against changes with it, and opens them without asking for it. What
such a workbook shows, and what runs in it, is what it decrypts to.
"""

import base64
import io
import struct
from collections.abc import Iterator, Mapping
from typing import Final

import msoffcrypto.method.ecma376_agile as agile
import msoffcrypto.method.ecma376_standard as standard
import msoffcrypto.method.rc4 as office_rc4
import msoffcrypto.method.rc4_cryptoapi as crypto_api
import msoffcrypto.method.xor_obfuscation as obfuscation

from sluice_inspect.office.compound import ENCRYPTED, MAGIC, CompoundFile, is_compound_document
from sluice_inspect.report import Limits
from sluice_inspect.source import MemoryBacked, RandomAccess, Source
from sluice_inspect.text.xmlsafe import Doctype, StopParsing, XmlTarget, parse_xml

_PASSWORD: Final = "VelvetSweatshop"  # noqa: S105  (published by the maker of the format)
_MAX_BYTES: Final = 32 * 1024**2
"""Larger documents are not decrypted: a child must hold one several times."""
_INFO_BYTES: Final = 64 * 1024
_LENGTH_BYTES: Final = 8
_PACKAGE_MAGIC: Final = b"PK\x03\x04"

_AGILE: Final = b"\x04\x00\x04\x00"
_STANDARD_MINOR: Final = b"\x02\x00"
_INFO_HEAD_BYTES: Final = 8
_MAX_SPINS: Final = 1_000_000  # writers use 100,000, which takes 0.1 s

_OBFUSCATED, _RC4, _CRYPTO_API = b"\0\0", b"\1\0\1\0\1\0", frozenset({b"\2\0", b"\3\0", b"\4\0"})
_RC4_BLOCK_BYTES: Final = 1024
_RC4_BITS: Final = 40
_BARE: Final = b"\x09\x08"  # a workbook that a writer left without its container begins with a record
_RECORD: Final = struct.Struct("<HH")
_FILEPASS, _BOUNDSHEET, _NO_RECORD = 0x002F, 0x0085, b"\0\0"
_PLAIN_SHEET_BYTES: Final = 4  # where the sheet is
# BOF, InterfaceHdr, RRDHead, UsrExcl, FileLock, RRDInfo ([MS-XLS] 2.4.117)
_PLAIN_RECORDS: Final = frozenset({0x0809, 0x00E1, 0x0138, 0x0194, 0x0195, 0x0196, _FILEPASS})
_RECORDS_BEFORE_FILEPASS: Final = 16
_MAX_RECORDS: Final = 2_000_000
_ROTATED: Final = bytes((byte >> 5 | byte << 3) & 0xFF for byte in range(256))


def decrypted(source: RandomAccess) -> bytes | None:
    """Return the document that opens with Excel's password, None if this is none or needs another password."""
    if source.size > _MAX_BYTES or not source.read_at(0, len(MAGIC)).startswith((MAGIC, _BARE)):
        return None
    if isinstance(source, Source):
        return source.cached(_decrypt)
    with MemoryBacked(source.read_at(0, source.size)) as copy:
        return _decrypt(copy)


def _decrypt(source: Source) -> bytes | None:
    try:
        if source.head.startswith(_BARE):
            encryption = _encryption_of(source.head)
            return None if encryption is None else _decrypt_workbook(source.read_at(0, source.size), encryption)
        if not is_compound_document(source, ENCRYPTED) and not is_compound_document(source, "xls"):
            return None
        container = source.cached(CompoundFile)
        info, package = container.root.stream("encryptioninfo"), container.root.stream("encryptedpackage")
        workbook = container.root.stream("workbook", "book")
        if info is not None and package is not None:
            container.check_streams()
            return _decrypt_package(container.read(info, _INFO_BYTES), container.read(package))
        if workbook is None or (encryption := _encryption_of(container.read(workbook, _INFO_BYTES))) is None:
            return None
        container.check_streams()
        stream = _decrypt_workbook(container.read(workbook), encryption)
        return None if stream is None else container.with_stream(workbook, stream)
    except (MemoryError, OSError):
        raise
    except Exception:  # noqa: BLE001  (bytes that are no such encryption can end in any error of the library)
        return None


def _decrypt_package(info: bytes, package: bytes) -> bytes | None:
    """Return an Office Open XML document. A wrong password gives bytes that do not begin as one."""
    size = int.from_bytes(package[:_LENGTH_BYTES], "little")
    if size > len(package) - _LENGTH_BYTES:
        return None
    if info.startswith(_AGILE):
        parameters = _Parameters()
        parse_xml(io.BytesIO(info[_INFO_HEAD_BYTES:]), Limits(), target=parameters, doctype=Doctype.FORBIDDEN)
        document_key, password_key = parameters.document_key, parameters.password_key
        spins = int(password_key["spinCount"])
        if not 0 <= spins <= _MAX_SPINS:
            return None
        key = agile.ECMA376Agile.makekey_from_password(
            _PASSWORD,
            base64.b64decode(password_key["saltValue"]),
            password_key["hashAlgorithm"],
            base64.b64decode(password_key["encryptedKeyValue"]),
            spins,
            int(password_key["keyBits"]),
        )
        salt = base64.b64decode(document_key["saltValue"])
        document: bytes = agile.ECMA376Agile.decrypt(key, salt, document_key["hashAlgorithm"], io.BytesIO(package))
    elif info[2:4] == _STANDARD_MINOR:
        (header_bytes,) = struct.unpack_from("<L", info, _INFO_HEAD_BYTES)
        algorithm, hashed_by, key_bits, provider = struct.unpack_from("<4L", info, 20)
        verifier = info[12 + header_bytes :]
        key = standard.ECMA376Standard.makekey_from_password(
            _PASSWORD, algorithm, hashed_by, provider, key_bits, 16, verifier[4:20]
        )
        document = standard.ECMA376Standard.decrypt(key, io.BytesIO(package))
    else:
        return None
    return document if document.startswith(_PACKAGE_MAGIC) else None


class _Parameters(XmlTarget):
    """Keeps how the data is encrypted, and how the first password leads to its key."""

    def __init__(self) -> None:
        self.document_key: Mapping[str, str] = {}
        self.password_key: Mapping[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag.endswith("}keyData"):
            self.document_key = dict(attributes)
        elif tag.endswith("}encryptedKey"):
            self.password_key = dict(attributes)
            raise StopParsing


def _encryption_of(workbook: bytes) -> bytes | None:
    """Return the record that says how a workbook is encrypted. It is one of the first."""
    for number, (record_type, start, end) in enumerate(_records(workbook)):
        if record_type == _FILEPASS:
            return workbook[start:end]
        if number == _RECORDS_BEFORE_FILEPASS:
            break
    return None


def _records(workbook: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the type of each record, and where its body begins and ends."""
    at = 0
    while at + _RECORD.size <= len(workbook):
        record_type, length = _RECORD.unpack_from(workbook, at)
        start = at + _RECORD.size
        at = start + length
        yield record_type, start, min(at, len(workbook))


def _decrypt_workbook(workbook: bytes, encryption: bytes) -> bytes | None:
    """Return the stream of a workbook as it was before its encryption, but for the record that describes that."""
    whole = b""  # the stream, with what is encrypted decrypted; what is not is taken from `workbook`
    if encryption.startswith(_OBFUSCATED):
        key, verifier_bits = struct.unpack_from("<HH", encryption, 2)
        xor = obfuscation.DocumentXOR
        if key != xor.create_xor_key_method1(_PASSWORD) or not xor.verifypw(_PASSWORD, verifier_bits):
            return None
    elif encryption.startswith(_RC4):
        salt = encryption[6:22]
        if not office_rc4.DocumentRC4.verifypw(_PASSWORD, salt, encryption[22:38], encryption[38:54]):
            return None
        whole = office_rc4.DocumentRC4.decrypt(_PASSWORD, salt, io.BytesIO(workbook), blocksize=_RC4_BLOCK_BYTES).read()
    elif encryption[2:4] in _CRYPTO_API:
        (header_bytes,) = struct.unpack_from("<L", encryption, 10)
        bits = struct.unpack_from("<L", encryption, 30)[0] or _RC4_BITS
        verifier = encryption[14 + header_bytes :]
        salt = verifier[4:20]
        if not crypto_api.DocumentRC4CryptoAPI.verifypw(_PASSWORD, salt, bits, verifier[20:36], verifier[40:60]):
            return None
        whole = crypto_api.DocumentRC4CryptoAPI.decrypt(
            _PASSWORD, salt, bits, io.BytesIO(workbook), blocksize=_RC4_BLOCK_BYTES
        ).read()
    else:
        return None
    plain = bytearray(workbook)
    mask = bytes(obfuscation.DocumentXOR.create_xor_array_method1(_PASSWORD))
    for number, (record_type, start, end) in enumerate(_records(workbook)):
        if number == _MAX_RECORDS:
            return None
        if record_type == _FILEPASS:
            plain[start - _RECORD.size : start - _RECORD.size + 2] = _NO_RECORD
        elif record_type not in _PLAIN_RECORDS:
            first = start + (_PLAIN_SHEET_BYTES if record_type == _BOUNDSHEET else 0)
            plain[first:end] = whole[first:end] or _clear(workbook[first:end], mask, first + end - start)
    return bytes(plain)


def _clear(body: bytes, mask: bytes, at: int) -> bytes:
    """Return what was obfuscated with the repeated mask from a position of it on ([MS-OFFCRYPTO] 2.3.7.3)."""
    repeated = mask * (len(body) // len(mask) + 2)
    shift = at % len(mask)
    masked = int.from_bytes(body, "little") ^ int.from_bytes(repeated[shift : shift + len(body)], "little")
    return masked.to_bytes(len(body), "little").translate(_ROTATED)
