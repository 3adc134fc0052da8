"""Idempotency keys of uploads; what a repeated upload is answered is decided in `uploads.idempotency`."""

from sluice.idempotency_keys.key_claim import EarlierUpload, KeyClaim, hash_of_key

__all__ = ["EarlierUpload", "KeyClaim", "hash_of_key"]
