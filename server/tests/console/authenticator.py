"""A software authenticator (WebAuthn level 2): it makes one passkey with ES256, and signs with it."""

import hashlib
import json
import secrets
from base64 import urlsafe_b64decode
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from webauthn.helpers import encode_cbor

from tests.identity.tokens import b64

PRESENT, VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


class SoftwareAuthenticator:
    """`origin` is of the page that it believes to be on, `count` the number of its next signature."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.count = 0
        self.flags = PRESENT | VERIFIED
        self.credential_id = secrets.token_bytes(16)
        self.user_handle = b""
        self._key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: dict[str, Any]) -> str:
        """Return what a browser makes of the response to `navigator.credentials.create()`."""
        assert options["authenticatorSelection"]["residentKey"] == "required"
        self.user_handle = urlsafe_b64decode(options["user"]["id"] + "==")
        point = self._key.public_key().public_numbers()
        x, y = (number.to_bytes(32, "big") for number in (point.x, point.y))
        cose = encode_cbor({1: 2, 3: -7, -1: 1, -2: x, -3: y})
        length = len(self.credential_id).to_bytes(2, "big")
        data = self._data(options["rp"]["id"], _ATTESTED) + bytes(16) + length + self.credential_id + cose
        attestation = encode_cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client_data = self._client_data("webauthn.create", options)
        return self._credential({"clientDataJSON": b64(client_data), "attestationObject": b64(attestation)})

    def get(self, options: dict[str, Any]) -> str:
        """Return what a browser makes of the response to `navigator.credentials.get()`."""
        self.count += 1
        data, client_data = self._data(options["rpId"]), self._client_data("webauthn.get", options)
        signature = self._key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(SHA256()))
        response = {"clientDataJSON": client_data, "authenticatorData": data, "signature": signature}
        return self._credential({name: b64(value) for name, value in (response | self._handle()).items()})

    def _handle(self) -> dict[str, bytes]:
        return {"userHandle": self.user_handle} if self.user_handle else {}

    def _data(self, site: str, more: int = 0) -> bytes:
        return hashlib.sha256(site.encode()).digest() + bytes([self.flags | more]) + self.count.to_bytes(4, "big")

    def _client_data(self, kind: str, options: dict[str, Any]) -> bytes:
        return json.dumps({"type": kind, "challenge": options["challenge"], "origin": self.origin}).encode()

    def _credential(self, response: dict[str, str]) -> str:
        own = b64(self.credential_id)
        return json.dumps({"id": own, "rawId": own, "type": "public-key", "response": response})
