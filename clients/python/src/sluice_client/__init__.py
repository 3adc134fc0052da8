"""Client of Sluice, the upload gate: `Sluice`, and `AsyncSluice` for asyncio. Its commands are in `cli`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from sluice_client.verify import sign_webhook, verify_receipt, verify_webhook

__version__ = "0.1.0"
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
    "sign_webhook",
    "verify_receipt",
    "verify_webhook",
]


def __getattr__(name: str) -> Any:
    """Import what is named when it is first used: most commands need no model of the API."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = "client" if name.endswith("Sluice") else "verify" if name.startswith(("sign", "verify")) else "errors"
    return getattr(import_module(f"{__name__}.{place}"), name)
