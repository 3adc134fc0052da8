"""Self-signed certificates for the servers and clients of tests."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def self_signed(of: str = "localhost", address: str | None = None, *, is_ca: bool = False) -> tuple[bytes, bytes]:
    """Return a certificate of a name, for `localhost` and the address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, of)]), datetime.now(UTC)
    begins, ends = now - timedelta(hours=1), now + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), begins, ends)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [] if address is None else [x509.IPAddress(ip_address(address))]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if is_ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    return certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
