"""The providers of buckets, by the names that the interface and the database have for them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from sluice.storage.azure.settings import AzureSettings
from sluice.storage.gcs.settings import GcsSettings
from sluice.storage.protocol import ProviderSettings
from sluice.storage.s3.settings import S3Settings

PROVIDERS: Final[Mapping[str, type[ProviderSettings]]] = {
    each.provider: each for each in (S3Settings, AzureSettings, GcsSettings)
}


def settings_of(provider: str, values: Mapping[str, Any]) -> ProviderSettings:
    """Return the settings that `values_of` has written."""
    return PROVIDERS[provider](**values)


def values_of(settings: ProviderSettings) -> Mapping[str, Any]:
    """Return the settings as they are stored."""
    return asdict(settings)  # type: ignore[call-overload,no-any-return]  # a dataclass, as each of `PROVIDERS` is
