"""Idempotency keys of uploads; the response to a repeated upload is decided in `uploads.idempotency`."""

from sluice.idempotency_keys.key_claim import EarlierUpload, KeyClaim, hash_of_key

__all__ = ["EarlierUpload", "KeyClaim", "hash_of_key"]
