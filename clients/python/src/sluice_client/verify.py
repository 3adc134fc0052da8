"""Verification of what the service signs: webhooks and receipts. Nothing is asked of the service."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from sluice_client.errors import InvalidReceipt, InvalidWebhook
from sluice_client.models import Event, PublicKeys


def verify_webhook(
    body: bytes | str, headers: Mapping[str, str], secret: str | Sequence[str], *, tolerance_seconds: float = 300
) -> Event:
    """Return the event of a webhook that was signed with the secret, or one of the secrets, of an endpoint.

    `body` is the body as it arrived, not parsed. Raise `InvalidWebhook`. The same event may come twice: remember
    `headers["webhook-id"]`. The signature is that of Standard Webhooks 1.0.
    """
    found = {name.lower(): value for name, value in headers.items()}
    raw = body.encode() if isinstance(body, str) else body
    try:
        message_id, timestamp = found["webhook-id"], found["webhook-timestamp"]
        signatures = [one.encode() for one in found["webhook-signature"].split()]
        age = abs(time.time() - int(timestamp))
    except (KeyError, ValueError) as fault:
        raise InvalidWebhook("The headers webhook-id, webhook-timestamp and webhook-signature are needed") from fault
    if age > tolerance_seconds:
        raise InvalidWebhook("It was signed too long ago, or a clock is wrong")
    for one in (secret,) if isinstance(secret, str) else secret:
        expected = _signature(raw, one, message_id, timestamp)
        # compared as bytes: `compare_digest` refuses text that is not ASCII
        compared = [hmac.compare_digest(expected, signature) for signature in signatures]  # all of them, in any case
        if any(compared):
            break
    else:
        raise InvalidWebhook("The signature does not match")
    try:
        return Event.model_validate_json(raw)
    except ValidationError as fault:
        raise InvalidWebhook("The body is no event") from fault


def sign_webhook(body: bytes, secret: str, *, message_id: str, timestamp: int) -> dict[str, str]:
    """Return the headers of a webhook as the service signs it, for tests of a receiver.

    Raise `ValueError` for a secret that is not base64 behind `whsec_`.
    """
    signature = _signature(body, secret, message_id, str(timestamp)).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def _signature(body: bytes, secret: str, message_id: str, timestamp: str) -> bytes:
    content = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256).digest()
    return b"v1," + base64.b64encode(digest)


def verify_receipt(receipt: str, public_keys: PublicKeys | Mapping[str, Any]) -> dict[str, Any]:
    """Return what a receipt states, if one of the keys signed it; raise `InvalidReceipt`.

    `public_keys` is the response of `client.service.receipt_keys()`, or a kept copy of it. Compare `sha256` with that
    of the file yourself. Needs `sluice-client[receipts]`.
    """
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  (an extra)
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415  (an extra)
    except ImportError as fault:
        raise ImportError("verify_receipt needs an extra: pip install 'sluice-client[receipts]'") from fault

    try:
        known = public_keys if isinstance(public_keys, PublicKeys) else PublicKeys.model_validate(public_keys)
        signed, _, signature = receipt.rpartition(".")
        head, _, payload = signed.partition(".")
        header = json.loads(_decoded(head))
        is_receipt = header["typ"] == "sluice-receipt+jws" and header["alg"] in {"Ed25519", "EdDSA"}
        key = next(one for one in known.keys if is_receipt and one.kid == header["kid"])
        Ed25519PublicKey.from_public_bytes(_decoded(key.x)).verify(_decoded(signature), signed.encode())
        stated: dict[str, Any] = json.loads(_decoded(payload))
    except InvalidSignature as fault:
        raise InvalidReceipt("Its signature does not match: it was changed") from fault
    except StopIteration as fault:
        raise InvalidReceipt("It is no receipt, or its key is not among the known ones") from fault
    except (KeyError, TypeError, ValueError) as fault:
        raise InvalidReceipt("It is no receipt that one of these keys signed") from fault
    return stated


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
