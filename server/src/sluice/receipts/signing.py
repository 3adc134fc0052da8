"""The keys that sign receipts: a file that the first start creates, and whose old public keys stay after a rotation.

    {"private": "<64 hex digits>", "keys": [{"kid": "…", "x": "<base64url>", "since": "2026-11-23"}, …]}

The last of `keys` belongs to `private`. A receipt is a JWS in its compact form (RFC 7515), signed with Ed25519 (RFC
9864); the id of a key is its thumbprint (RFC 7638).
"""

import base64
import binascii
import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jwt.algorithms import OKPAlgorithm
from jwt.api_jws import PyJWS
from jwt.exceptions import PyJWTError

from sluice.kit.secret_files import (
    SecretFileRefused,
    SecretPlace,
    SecretSetting,
    load_or_make,
    locked,
    read_secret,
    read_secret_file,
    replace_secret_file,
)
from sluice.kit.strict_json import NotStrictJson, read_json

TYPE: Final = "sluice-receipt+jws"
_ALGORITHM: Final = "Ed25519"  # RFC 9864, which deprecates the name before it
_ALGORITHMS: Final = (_ALGORITHM, "EdDSA")
_KEY_BYTES: Final = 32


def _jws() -> PyJWS:
    known = PyJWS(algorithms=["EdDSA"])
    known.register_algorithm(_ALGORITHM, OKPAlgorithm())  # which PyJWT does not know by this name
    return known


_JWS: Final = _jws()


class InvalidReceipt(Exception):
    """What was presented is no receipt that one of these keys signed. `str()` is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class ReceiptKeySet:
    """The private key that signs, and all public keys since the first, oldest first.

    `made`: the file was created just now.
    """

    private: bytes = field(repr=False)
    public: Sequence[Mapping[str, str]]
    made: bool = False


def load_receipt_keys(place: SecretPlace) -> ReceiptKeySet:
    """Load the keys; create their file with a random key when there is none. Raise `SecretFileRefused`."""
    file = load_or_make(place, lambda: _serialize(_with_new_key([])))
    keys = _parse(place, file.content)
    return ReceiptKeySet(keys.private, keys.public, made=file.made)


def rotate_receipt_keys(path: Path) -> str:
    """Sign with a new random key from now on, forget the private one before, and return the id of the new one.

    Public keys stay, so that what was signed can be verified. Raise `SecretFileRefused`.
    """
    with locked(path.parent):
        new = _with_new_key(_parse(path, read_secret_file(path)).public)
        replace_secret_file(path, _serialize(new))
    return new.public[-1]["kid"]


def receipt_keys_line(setting: SecretSetting) -> str:
    """Return the keys of a setting with a new one that signs, in one line, as the setting takes it.

    Raise `SecretFileRefused`.
    """
    return json.dumps(json.loads(_serialize(_with_new_key(_parse(setting, setting.content).public))))


class ReceiptKeys:
    """Signs receipts with the keys of a setting, or of a file, which it reads each time: it can change without a
    restart.
    """

    def __init__(self, place: SecretPlace) -> None:
        self._place = place

    def __repr__(self) -> str:
        return f"ReceiptKeys({str(self._place)!r})"

    def sign(self, payload: Mapping[str, Any]) -> str:
        """Return the payload as a signed receipt. Raise `SecretFileRefused` when the file cannot be read any more."""
        keys = _parse(self._place, read_secret(self._place))
        signed: str = _JWS.encode(
            json.dumps(payload, sort_keys=True, separators=(",", ":")).encode(),
            Ed25519PrivateKey.from_private_bytes(keys.private),
            algorithm=_ALGORITHM,
            headers={"kid": keys.public[-1]["kid"], "typ": TYPE},
        )
        return signed

    def public_keys(self) -> dict[str, Any]:
        """Return all public keys as a JSON Web Key Set (RFC 7517). Raise `SecretFileRefused`."""
        keys = _parse(self._place, read_secret(self._place))
        shared = {"kty": "OKP", "crv": "Ed25519", "alg": _ALGORITHM, "use": "sig"}
        return {"keys": [{**shared, "kid": key["kid"], "x": key["x"]} for key in reversed(keys.public)]}


def verify_receipt(receipt: str, public_keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a receipt that a key of the set signed; raise `InvalidReceipt`."""
    try:
        header = _JWS.get_unverified_header(receipt)
        if header.get("alg") not in _ALGORITHMS or header.get("typ") != TYPE:
            raise InvalidReceipt(f"It is no receipt: expected the algorithm {_ALGORITHM} and the type {TYPE}.")
        found = [key for key in public_keys["keys"] if key["kid"] == header.get("kid")]
        if not found:
            raise InvalidReceipt("It is signed with a key that is not among the known ones.")
        key = Ed25519PublicKey.from_public_bytes(_decode(found[0]["x"]))
        payload = read_json(_JWS.decode(receipt, key, algorithms=list(_ALGORITHMS)))
    except PyJWTError as fault:
        raise InvalidReceipt("Its signature does not match: it was changed, or is no receipt.") from fault
    except (KeyError, TypeError, ValueError, binascii.Error) as fault:
        raise InvalidReceipt("The public keys are no JSON Web Key Set of Sluice.") from fault
    except NotStrictJson as fault:
        raise InvalidReceipt("Its payload is no JSON object.") from fault
    if not isinstance(payload, dict):
        raise InvalidReceipt("Its payload is no JSON object.")
    return payload


def _with_new_key(public: Sequence[Mapping[str, str]]) -> ReceiptKeySet:
    private = secrets.token_bytes(_KEY_BYTES)
    x = _encode(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())
    # The members and their order are those of RFC 7638 section 3.2 for such a key (RFC 8037 section 2).
    thumbprint = hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest()
    key = {"kid": _encode(thumbprint), "x": x, "since": datetime.now(UTC).date().isoformat()}
    return ReceiptKeySet(private, (*public, key))


def _serialize(keys: ReceiptKeySet) -> bytes:
    return f"{json.dumps({'private': keys.private.hex(), 'keys': list(keys.public)}, indent=2)}\n".encode()


def _parse(place: SecretPlace, content: bytes) -> ReceiptKeySet:
    """Return the keys. Errors never quote the file's content."""
    try:
        match read_json(content):
            case {"private": str(private), "keys": [*found]} if found:
                public = [{name: str(key[name]) for name in ("kid", "x", "since")} for key in found]
                known = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private)).public_key().public_bytes_raw()
                if known == _decode(public[-1]["x"]):
                    return ReceiptKeySet(bytes.fromhex(private), public)
    except (NotStrictJson, KeyError, TypeError, ValueError) as error:
        raise SecretFileRefused(f"The keys of receipts {place} are damaged: restore them from your copy.") from error
    raise SecretFileRefused(f"{place} does not hold keys of receipts: restore it from your copy.")


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
