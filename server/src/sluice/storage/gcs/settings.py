"""The settings of a bucket of Google Cloud Storage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self
from urllib.parse import SplitResult

from sluice.storage.protocol import Connection, FieldRefused, ObjectStore, ProviderField, ProviderSettings

_KEY: Final = "service_account_key"
_NOT_A_KEY: Final = "expected the JSON of a service account's key, with client_email and private_key"


@dataclass(frozen=True, slots=True)
class GcsSettings(ProviderSettings):
    """The secret is the JSON of a key of `service_account`, an e-mail address. `endpoint_url` None is Google's own."""

    provider: ClassVar[str] = "gcs"
    title: ClassVar[str] = "Google Cloud Storage"
    scheme: ClassVar[str] = "gs"
    fields: ClassVar[Sequence[ProviderField]] = (
        ProviderField("endpoint_url", "Endpoint", "Empty: Google. Only hosts that the operator allows.", False),
        ProviderField(_KEY, "Service account key", "Its JSON.", max_length=10_000, secret=True),
    )

    service_account: str
    endpoint_url: str | None = None

    @classmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> "tuple[GcsSettings, str, str]":
        """Return the operator's own bucket, which the key of a service account opens."""
        if "secret" not in given:
            raise FieldRefused("SLUICE_STORAGE_SECRET, the JSON of a service account's key, is needed beside it")
        return cls(email_of(given["secret"]), given.get("endpoint_url")), url.netloc, given["secret"]

    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown."""
        return {"endpoint_url": self.endpoint_url or "Google", "service_account": self.service_account}

    def rotated(self, sent: Mapping[str, str]) -> tuple[Self, str]:
        """Return the settings with another key, also one of another service account."""
        for name in sent:
            if name != _KEY:
                raise FieldRefused("unknown field for a bucket of Google Cloud Storage", name)
        if _KEY not in sent:
            raise FieldRefused(f"expected {_KEY}")
        return replace(self, service_account=email_of(sent[_KEY])), sent[_KEY]

    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return the bucket's store, whose HTTP client is loaded now."""
        from sluice.storage.gcs.store import GcsStore  # noqa: PLC0415

        return GcsStore(bucket, secret, connection, endpoint_url=self.endpoint_url)


def email_of(key: str) -> str:
    """Return the e-mail address of a service account from the JSON of its key. Raise `FieldRefused`."""
    try:
        values = json.loads(key)
    except (ValueError, RecursionError):
        raise FieldRefused(_NOT_A_KEY, _KEY) from None
    if not isinstance(values, dict) or not isinstance(values.get("private_key"), str):
        raise FieldRefused(_NOT_A_KEY, _KEY)
    email = values.get("client_email")
    if not isinstance(email, str) or "@" not in email or not email.isascii() or not email.isprintable():
        raise FieldRefused(_NOT_A_KEY, _KEY)
    return email
