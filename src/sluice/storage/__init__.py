"""Object stores: a tenant's own buckets and the platform's store. Which store a file belongs to is decided in `buckets`."""

from sluice.engines.storage.protocol import (
    AbortsStaleParts,
    Listed,
    ListsObjects,
    ObjectStore,
    PresignsDownloads,
    PutsAhead,
    StoreFault,
    StoreFull,
    SweepsLeftovers,
)

__all__ = [
    "AbortsStaleParts",
    "Listed",
    "ListsObjects",
    "ObjectStore",
    "PresignsDownloads",
    "PutsAhead",
    "StoreFault",
    "StoreFull",
    "SweepsLeftovers",
]
