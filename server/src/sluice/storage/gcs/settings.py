"""The settings of a bucket of Google Cloud Storage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self
from urllib.parse import SplitResult

from sluice.kit.text import masked
from sluice.storage.protocol import Connection, FieldRefused, ObjectStore, ProviderField, ProviderSettings

_KEY: Final = "service_account_key"
_PAIR: Final = ("access_key_id", "secret_access_key")
_NOT_A_KEY: Final = "expected the JSON of a service account's key, with client_email and private_key"


@dataclass(frozen=True, slots=True)
class GcsSettings(ProviderSettings):
    """The secret is the JSON of a key of `service_account`, an e-mail address, or that of the HMAC key `access_key_id`.

    The other one is None. `endpoint_url` None is Google's own.
    """

    provider: ClassVar[str] = "gcs"
    title: ClassVar[str] = "Google Cloud Storage"
    scheme: ClassVar[str] = "gs"
    fields: ClassVar[Sequence[ProviderField]] = (
        ProviderField("endpoint_url", "Endpoint", "Empty: Google. Only hosts that the operator allows.", False),
        ProviderField(_KEY, "Service account key", "Its JSON.", False, max_length=10_000, secret=True),
        ProviderField(
            "access_key_id", "Access ID", "Or an HMAC key.", False, min_length=16, max_length=128, rotates=True
        ),
        ProviderField("secret_access_key", "Secret", "That of the HMAC key.", False, max_length=512, secret=True),
    )

    service_account: str | None
    endpoint_url: str | None = None
    access_key_id: str | None = field(default=None, repr=False)

    @classmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> "tuple[GcsSettings, str, str]":
        """Return the operator's own bucket."""
        has_pair = given.keys() >= set(_PAIR)
        if has_pair == ("secret" in given) or not (has_pair or given.keys().isdisjoint(_PAIR)):
            raise FieldRefused(
                "SLUICE_STORAGE_SECRET, the JSON of a service account's key, is needed beside it, or an HMAC key as "
                "SLUICE_STORAGE_ACCESS_KEY_ID and SLUICE_STORAGE_SECRET_ACCESS_KEY"
            )
        sent = {name: given[name] for name in _PAIR} if has_pair else {_KEY: given["secret"]}
        settings, secret = cls(None, given.get("endpoint_url")).rotated(sent)
        return settings, url.netloc, secret

    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown."""
        shown = {"endpoint_url": self.endpoint_url or "Google"}
        if self.access_key_id is not None:
            return shown | {"access_key_id": masked(self.access_key_id)}
        return shown | {"service_account": self.service_account or ""}

    def rotated(self, sent: Mapping[str, str]) -> tuple[Self, str]:
        """Return the settings with another key, also one of the other kind, or of another service account."""
        for name in sent:
            if name not in {_KEY, *_PAIR}:
                raise FieldRefused("unknown field for a bucket of Google Cloud Storage", name)
        if sent.keys() == {_KEY}:
            return replace(self, service_account=email_of(sent[_KEY]), access_key_id=None), sent[_KEY]
        if sent.keys() == set(_PAIR):
            return replace(self, service_account=None, access_key_id=sent["access_key_id"]), sent["secret_access_key"]
        found = " and ".join(sorted(sent)) or "none of them"
        raise FieldRefused(f"expected {_KEY}, or access_key_id and secret_access_key, found {found}")

    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return the bucket's store, whose HTTP client is loaded now."""
        if self.access_key_id is not None:
            from sluice.storage.gcs.hmac_store import HmacGcsStore  # noqa: PLC0415

            return HmacGcsStore(bucket, self.access_key_id, secret, connection, endpoint_url=self.endpoint_url)
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
