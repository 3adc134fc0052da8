"""Object stores: tenants' own buckets and the platform's store.

Which store a file belongs to is decided in `buckets`.
"""

from sluice.storage.azure.settings import AzureSettings
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
from sluice.storage.gcs.settings import GcsSettings, email_of
from sluice.storage.protocol import (
    AbortsStaleParts,
    Connection,
    DeletesMany,
    EndpointNotAllowed,
    FieldRefused,
    KeepsFiles,
    ListedObject,
    ListsObjects,
    MakesRemarks,
    ObjectChanged,
    ObjectStore,
    PresignsDownloads,
    ProbeStep,
    ProviderField,
    ProviderSettings,
    StoreError,
    StoreFull,
    StoreUnavailable,
    SupportsSpeculativePut,
    SweepsLeftovers,
    Timeouts,
)
from sluice.storage.providers import PROVIDERS, settings_of, values_of
from sluice.storage.s3.settings import S3Settings

__all__ = [
    "EXPORTS",
    "INCOMING",
    "PREVIEW_SIDES",
    "PROBES",
    "PROVIDERS",
    "SERVICE_FOLDERS",
    "AbortsStaleParts",
    "AzureSettings",
    "Connection",
    "DeletesMany",
    "EndpointNotAllowed",
    "FieldRefused",
    "GcsSettings",
    "KeepsFiles",
    "ListedObject",
    "ListsObjects",
    "MakesRemarks",
    "ObjectChanged",
    "ObjectStore",
    "PresignsDownloads",
    "ProbeStep",
    "ProviderField",
    "ProviderSettings",
    "S3Settings",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "SupportsSpeculativePut",
    "SweepsLeftovers",
    "Timeouts",
    "email_of",
    "is_in_service_folder",
    "outside_service_folders",
    "preview_key",
    "settings_of",
    "values_of",
    "without_preview",
]
