"""The settings of a bucket of Google Cloud Storage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal, Self
from urllib.parse import SplitResult

from sluice.kit.text import masked
from sluice.storage.protocol import Connection, FieldRefused, ObjectStore, ProviderField, ProviderSettings

GcsCredential = Literal["service_account_key", "hmac_key"]
_CREDENTIALS: Final = frozenset({"service_account_key", "access_key_id", "secret_access_key"})
_NOT_A_KEY: Final = "expected the JSON of a service account's key, with client_email and private_key"


@dataclass(frozen=True, slots=True)
class GcsSettings(ProviderSettings):
    """The secret is the JSON of a service account's key, or the secret of an HMAC key.

    `identity` is the e-mail address of the service account, or the access ID of the HMAC key. `endpoint_url` None is
    Google's own.
    """

    provider: ClassVar[str] = "gcs"
    title: ClassVar[str] = "Google Cloud Storage"
    scheme: ClassVar[str] = "gs"
    fields: ClassVar[Sequence[ProviderField]] = (
        ProviderField("endpoint_url", "Endpoint", "Empty: Google. Only hosts that the operator allows.", False),
        ProviderField("service_account_key", "Service account key", "Its JSON.", False, max_length=10_000, secret=True),
        ProviderField("access_key_id", "Access ID", "Or an HMAC key.", False, 16, 128, rotates=True),
        ProviderField("secret_access_key", "Secret", "Of the HMAC key.", False, 1, 512, secret=True, rotates=True),
    )

    credential: GcsCredential
    identity: str
    endpoint_url: str | None = None

    @classmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> "tuple[GcsSettings, str, str]":
        """Return the operator's own bucket, which the key of a service account or an HMAC key opens."""
        sent = {name: given[name] for name in ("access_key_id", "secret_access_key") if name in given}
        if "secret" in given:
            sent["service_account_key"] = given["secret"]
        credential, identity, secret = credential_of(sent)
        return cls(credential, identity, given.get("endpoint_url")), url.netloc, secret

    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown."""
        shown = {"endpoint_url": self.endpoint_url or "Google"}
        if self.credential == "hmac_key":
            return shown | {"access_key_id": masked(self.identity)}
        return shown | {"service_account": self.identity}

    def rotated(self, sent: Mapping[str, str]) -> tuple[Self, str]:
        """Return the settings with another secret, also one of the other kind."""
        credential, identity, secret = credential_of(sent)
        return replace(self, credential=credential, identity=identity), secret

    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return the bucket's store, whose client libraries are loaded now."""
        from sluice.storage.gcs.store import GcsStore  # noqa: PLC0415

        return GcsStore(self, bucket, secret, connection)


def credential_of(sent: Mapping[str, str]) -> tuple[GcsCredential, str, str]:
    """Return the kind of the credential that was sent, its identity and its secret.

    Raise `FieldRefused` for none, several, or other fields.
    """
    for name in sent:
        if name not in _CREDENTIALS:
            raise FieldRefused("unknown field for a bucket of Google Cloud Storage", name)
    if sent.keys() == {"service_account_key"}:
        return "service_account_key", email_of(sent["service_account_key"]), sent["service_account_key"]
    if sent.keys() == {"access_key_id", "secret_access_key"}:
        return "hmac_key", sent["access_key_id"], sent["secret_access_key"]
    found = " and ".join(sorted(sent)) or "none of them"
    raise FieldRefused(f"expected service_account_key, or access_key_id and secret_access_key, found {found}")


def email_of(key: str) -> str:
    """Return the e-mail address of a service account from the JSON of its key."""
    try:
        values = json.loads(key)
    except ValueError:
        raise FieldRefused(_NOT_A_KEY, "service_account_key") from None
    if not isinstance(values, dict) or not isinstance(values.get("private_key"), str):
        raise FieldRefused(_NOT_A_KEY, "service_account_key")
    email = values.get("client_email")
    if not isinstance(email, str) or "@" not in email:
        raise FieldRefused(_NOT_A_KEY, "service_account_key")
    return email
