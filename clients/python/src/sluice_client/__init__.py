"""Client of Sluice, the upload gate: `Sluice`, and `AsyncSluice` for asyncio."""

from sluice_client.client import AsyncSluice, Sluice
from sluice_client.errors import (
    Conflict,
    ConnectionFailed,
    FileRejected,
    InvalidReceipt,
    InvalidRequest,
    InvalidWebhook,
    LimitExceeded,
    NotFound,
    PermissionDenied,
    ServiceError,
    SluiceError,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
)
from sluice_client.verify import verify_receipt, verify_webhook

__all__ = [
    "AsyncSluice",
    "Conflict",
    "ConnectionFailed",
    "FileRejected",
    "InvalidReceipt",
    "InvalidRequest",
    "InvalidWebhook",
    "LimitExceeded",
    "NotFound",
    "PermissionDenied",
    "ServiceError",
    "Sluice",
    "SluiceError",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "verify_receipt",
    "verify_webhook",
]
