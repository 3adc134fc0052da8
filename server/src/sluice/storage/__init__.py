"""Object stores: tenants' own buckets and the platform's store.

Which store a file belongs to is decided in `buckets`.
"""

from sluice.storage.protocol import (
    AbortsStaleParts,
    DeletesMany,
    EndpointNotAllowed,
    KeepsFiles,
    ListedObject,
    ListsObjects,
    ObjectChanged,
    ObjectStore,
    PresignsDownloads,
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
    "KeepsFiles",
    "ListedObject",
    "ListsObjects",
    "ObjectChanged",
    "ObjectStore",
    "PresignsDownloads",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SupportsSpeculativePut",
    "SweepsLeftovers",
]
