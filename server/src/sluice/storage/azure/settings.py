"""The settings of a container of Azure Blob Storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, Self
from urllib.parse import SplitResult, parse_qsl

from sluice.kit.text import masked
from sluice.storage.protocol import Connection, FieldRefused, ObjectStore, ProviderField, ProviderSettings

AzureCredential = Literal["account_key", "sas_token", "client_secret"]
SECRETS: Final[tuple[AzureCredential, ...]] = ("account_key", "sas_token", "client_secret")
_OF_A_CLIENT: Final = ("directory_id", "client_id")


@dataclass(frozen=True, slots=True)
class AzureSettings(ProviderSettings):
    """The secret is an account key, a SAS token, or the secret of a client (an app registration) of a directory.

    `endpoint_url` None is the public cloud.
    """

    provider: ClassVar[str] = "azure_blob"
    title: ClassVar[str] = "Azure Blob Storage"
    scheme: ClassVar[str] = "az"
    fields: ClassVar[Sequence[ProviderField]] = (
        ProviderField("account", "Storage account", "Its name, such as acmeuploads.", min_length=3, max_length=24),
        ProviderField(
            "endpoint_url", "Endpoint", "Empty: the public cloud. Only hosts that the operator allows.", False
        ),
        ProviderField(
            "account_key",
            "Account key",
            "Or a SAS token, or a client.",
            False,
            max_length=128,
            secret=True,
            rotates=True,
        ),
        ProviderField(
            "sas_token", "SAS token", "For the container: rcwdl.", False, max_length=1000, secret=True, rotates=True
        ),
        ProviderField("directory_id", "Directory (tenant) ID", "Of a client.", False, max_length=36, rotates=True),
        ProviderField("client_id", "Application (client) ID", "Of a client.", False, max_length=36, rotates=True),
        ProviderField(
            "client_secret",
            "Client secret",
            "Of a client: the value, not its ID.",
            False,
            max_length=500,
            secret=True,
            rotates=True,
        ),
    )

    account: str
    credential: AzureCredential
    directory_id: str | None = None
    client_id: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None

    @classmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> "tuple[AzureSettings, str, str]":
        """Return the operator's own container. The form of its one secret says which kind it is."""
        if "secret" not in given:
            raise FieldRefused("SLUICE_STORAGE_SECRET is needed beside it")
        secret, of_client = given["secret"], dict(parse_qsl(url.query))
        kind = "client_secret" if of_client else "sas_token" if "sig=" in secret else "account_key"
        settings = cls(url.netloc, "account_key", endpoint_url=given.get("endpoint_url"))
        return *settings.rotated({kind: secret, **of_client})[:1], url.path.strip("/"), secret

    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown."""
        shown = {"account": self.account, "credential": self.credential}
        if self.endpoint_url is not None:
            shown["endpoint_url"] = self.endpoint_url
        if self.directory_id is not None and self.client_id is not None:
            shown |= {"directory_id": self.directory_id, "client_id": masked(self.client_id)}
        return shown

    def rotated(self, sent: Mapping[str, str]) -> tuple[Self, str]:
        """Return the settings with another secret, also one of another kind."""
        credential = credential_of(sent)
        of_client = {name: sent.get(name, getattr(self, name)) for name in _OF_A_CLIENT}
        if credential != "client_secret":
            of_client = dict.fromkeys(_OF_A_CLIENT)
        elif None in of_client.values():
            raise FieldRefused("client_secret is expected with directory_id and client_id")
        return replace(self, credential=credential, **of_client), sent[credential]

    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return the container's store, whose client library is loaded now."""
        from sluice.storage.azure.store import open_container  # noqa: PLC0415

        return open_container(self, bucket, secret, connection)


def credential_of(sent: Mapping[str, str]) -> AzureCredential:
    """Return the kind of the one secret that was sent. Raise `FieldRefused` for none, several, or other fields."""
    for name in sent:
        if name not in SECRETS and name not in _OF_A_CLIENT:
            raise FieldRefused("unknown field for a container of Azure", name)
    given = [name for name in SECRETS if name in sent]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise FieldRefused(f"expected account_key, sas_token or client_secret, found {found}")
    if given[0] != "client_secret" and len(sent) > 1:
        raise FieldRefused("directory_id and client_id are only for client_secret")
    return given[0]
