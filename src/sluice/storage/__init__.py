"""Object stores: tenants' own buckets and the platform's store.

Which store a file belongs to is decided in `buckets`.
"""

from sluice.storage.protocol import (
    AbortsStaleParts,
    DeletesMany,
    EndpointNotAllowed,
    ListedObject,
    ListsObjects,
    ObjectStore,
    PresignsDownloads,
    ReadsInBulk,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SupportsSpeculativePut,
    SweepsLeftovers,
)

__all__ = [
    "AbortsStaleParts",
    "DeletesMany",
    "EndpointNotAllowed",
    "ListedObject",
    "ListsObjects",
    "ObjectStore",
    "PresignsDownloads",
    "ReadsInBulk",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SupportsSpeculativePut",
    "SweepsLeftovers",
]
