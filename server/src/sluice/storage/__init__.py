"""Object stores: tenants' own buckets and the platform's store.

Which store a file belongs to is decided in `buckets`.
"""

from sluice.storage.folders import (
    EXPORTS,
    INCOMING,
    PREVIEW_SIDES,
    PROBES,
    SERVICE_FOLDERS,
    is_in_service_folder,
    outside_service_folders,
    preview_key,
    without_preview,
)
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
    ProbeStep,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SupportsSpeculativePut,
    SweepsLeftovers,
)

__all__ = [
    "EXPORTS",
    "INCOMING",
    "PREVIEW_SIDES",
    "PROBES",
    "SERVICE_FOLDERS",
    "AbortsStaleParts",
    "DeletesMany",
    "EndpointNotAllowed",
    "KeepsFiles",
    "ListedObject",
    "ListsObjects",
    "ObjectChanged",
    "ObjectStore",
    "PresignsDownloads",
    "ProbeStep",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SupportsSpeculativePut",
    "SweepsLeftovers",
    "is_in_service_folder",
    "outside_service_folders",
    "preview_key",
    "without_preview",
]
