"""Encrypted Office documents: a compound file with the streams `EncryptionInfo` and `EncryptedPackage` (MS-OFFCRYPTO), whatever its name says.

Decrypts nothing: of which family the document is, its name alone tells.
"""

from typing import Final

from sluice.formats.office.compound import CompoundFile
from sluice.formats.office.compound_family import ENCRYPTED, recognises
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_LENGTH_BYTES: Final = 8


def names_encrypted_package(source: Source) -> bool:
    """Whether the content is a compound file that holds an encrypted Office document, as far as its directory still shows."""
    return recognises(source, ENCRYPTED)


def check_encrypted_package(source: Source) -> None:
    """Raise `Corrupt` when an encrypted document is provably incomplete."""
    container = CompoundFile(source)
    package, info = container.root.stream("encryptedpackage"), container.root.stream("encryptioninfo")
    if package is None or info is None:
        raise Corrupt("the encrypted document lacks its content or the description of its encryption")
    container.check_streams()
    if int.from_bytes(container.read(package, _LENGTH_BYTES), "little") > package.size - _LENGTH_BYTES:
        raise Corrupt("the encrypted document is shorter than it states")
