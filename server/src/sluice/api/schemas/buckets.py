"""Bodies of the storage bucket endpoints."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, SecretStr, Tag, model_validator

from sluice.api.schemas.envelope import PLAIN, RequestBody, ResponseBody, UpdateBody, expecting, without_defaults
from sluice.buckets import Bucket
from sluice.buckets.service import NewBucket
from sluice.storage import (
    SERVICE_FOLDERS,
    AzureSettings,
    GcsSettings,
    ProviderSettings,
    S3Settings,
    email_of,
    is_in_service_folder,
)

_BASE_PATH: Final = re.compile(r"[A-Za-z0-9!_.*'()/=@+, -]*")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_PRINTABLE: Final = expecting("printable ASCII without spaces", re.compile(r"[\x21-\x7e]+").fullmatch)
_REGION: Final = expecting(
    "lower-case letters, digits and hyphens, such as 'eu-central-1'",
    re.compile(r"(?!xn--)[a-z0-9][a-z0-9-]*").fullmatch,  # it becomes a label of a host name
)
_AZURE_ACCOUNT: Final = expecting("lower-case letters and digits", re.compile(r"[a-z0-9]+").fullmatch)
_AZURE_CONTAINER: Final = expecting(
    "lower-case letters, digits and single hyphens between them", re.compile(r"[a-z0-9]+(-[a-z0-9]+)*").fullmatch
)
_GCS_BUCKET: Final = expecting(
    "lower-case letters, digits, hyphens, underscores and dots, with a letter or digit at both ends",
    re.compile(r"[a-z0-9][a-z0-9._-]*[a-z0-9]").fullmatch,
)
_UUID: Final = expecting("a UUID", re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch)


def _base_path(text: str) -> str:
    bare = text.strip("/")
    if not _BASE_PATH.fullmatch(bare):
        raise ValueError("expected letters, digits and !_.*'()/=@+,- and spaces")
    if bare and any(not segment.strip(". ") or segment != segment.strip() for segment in bare.split("/")):
        raise ValueError("expected no empty segment and none of dots or spaces alone")
    if is_in_service_folder(bare):
        raise ValueError(f"expected none of the service's own folders, which are {', '.join(SERVICE_FOLDERS)}")
    return bare


def _bucket(text: str) -> str:
    if not _BUCKET.fullmatch(text):
        raise ValueError("expected letters, digits, dots, hyphens and underscores, with a letter or digit at both ends")
    if text.startswith("xn--"):  # a label of a host name, and S3 makes the bucket one
        raise ValueError("expected a name that does not begin with 'xn--'")
    return text


def _service_account_key(key: SecretStr) -> SecretStr:
    if key.get_secret_value():
        email_of(key.get_secret_value())
    return key


Name = Annotated[str, Field(min_length=1, max_length=100, examples=["archive"]), PLAIN]
AccessKeyId = Annotated[str, Field(min_length=16, max_length=128), _PRINTABLE]
SecretKey = Annotated[SecretStr, Field(min_length=1, max_length=512, description="Encrypted at rest, never returned.")]
Endpoint = Annotated[str, Field(min_length=1, max_length=500), PLAIN]
AccountKey = Annotated[
    SecretStr, Field(min_length=1, max_length=128, description="One of the two keys of the account.")
]
SasToken = Annotated[
    SecretStr, Field(min_length=1, max_length=1000, description="A shared access signature for the container.")
]
DirectoryId = Annotated[str, Field(min_length=36, max_length=36, description="Directory (tenant) ID."), _UUID]
ClientId = Annotated[
    str, Field(min_length=36, max_length=36, description="Application (client) ID, with its `directory_id`."), _UUID
]
ClientSecret = Annotated[SecretStr, Field(min_length=1, max_length=500, description="Secret of that application.")]
ServiceAccountKey = Annotated[
    SecretStr,
    Field(min_length=1, max_length=10_000, description="JSON of a key of a service account, as text."),
    AfterValidator(_service_account_key),
]


def _is_empty(value: object) -> bool:
    return not value


class _NewBucket(RequestBody):
    """What is said of a bucket of any provider."""

    name: Annotated[Name, Field(description="A label, unique within the tenant.")]
    base_path: Annotated[str, Field(max_length=400), AfterValidator(_base_path)] = ""
    set_as_default: bool = False


class AddBucket(_NewBucket):
    """A bucket of S3 to be added.

    It is tried out (put, read, delete one small object) unless the operator turned that off.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "archive",
                    "access_key_id": "AKIAIOSFODNN7EXAMPLE",
                    "secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                    "region": "eu-central-1",
                    "default_bucket": "example-archive",
                    "base_path": "intake",
                    "set_as_default": True,
                }
            ]
        }
    )

    provider: Literal["objstore_s3"] = "objstore_s3"
    access_key_id: AccessKeyId
    secret_access_key: SecretKey
    default_bucket: Annotated[str, Field(min_length=3, max_length=63), AfterValidator(_bucket)]
    region: Annotated[str, Field(min_length=1, max_length=63), _REGION] = "us-east-1"
    endpoint_url: Endpoint | None = Field(None, description="Another S3 service; only hosts that the operator allows.")

    def new_bucket(self) -> NewBucket:
        """Return the bucket as the service takes it."""
        settings = S3Settings(self.access_key_id, self.region, self.endpoint_url)
        return _new_bucket(self, settings, self.secret_access_key.get_secret_value())


class AddAzureBucket(_NewBucket):
    """A container of Azure Blob Storage to be added, with one of three secrets.

    It is tried out as one of S3 is. A client, an app registration of a directory, is named with its secret.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "provider": "azure_blob",
                    "name": "archive",
                    "account": "exampleuploads",
                    "sas_token": "sv=2024-11-04&sr=c&sp=rcwdl&se=2027-06-30T00:00:00Z&sig=ZXhhbXBsZQ%3D%3D",
                    "default_bucket": "example-archive",
                }
            ]
        }
    )

    provider: Literal["azure_blob"]
    account: Annotated[
        str, Field(min_length=3, max_length=24, description="Name of the storage account."), _AZURE_ACCOUNT
    ]
    account_key: AccountKey | None = None
    sas_token: SasToken | None = None
    directory_id: DirectoryId | None = None
    client_id: ClientId | None = None
    client_secret: ClientSecret | None = None
    default_bucket: Annotated[
        str, Field(min_length=3, max_length=63, description="Name of the container."), _AZURE_CONTAINER
    ]
    endpoint_url: Endpoint | None = Field(
        None, description="The account at another cloud; only hosts that the operator allows."
    )

    @model_validator(mode="after")
    def _one_credential(self) -> "AddAzureBucket":
        self._place()
        return self

    def _place(self) -> tuple[AzureSettings, str]:
        return AzureSettings(self.account, "account_key", endpoint_url=self.endpoint_url).rotated(
            _credentials(self, AzureSettings)
        )

    def new_bucket(self) -> NewBucket:
        """Return the bucket as the service takes it."""
        return _new_bucket(self, *self._place())


class AddGcsBucket(_NewBucket):
    """A bucket of Google Cloud Storage to be added, with the key of a service account or an HMAC key.

    It is tried out as one of S3 is.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "provider": "gcs",
                    "name": "archive",
                    "service_account_key": '{"type": "service_account", "client_email": "sluice@example.iam'
                    '.gserviceaccount.com", "private_key": "-----BEGIN PRIVATE KEY-----\\n…"}',
                    "default_bucket": "example-archive",
                }
            ]
        }
    )

    provider: Literal["gcs"]
    service_account_key: ServiceAccountKey | None = None
    access_key_id: AccessKeyId | None = Field(
        None, description="Access ID of an HMAC key, with its `secret_access_key`."
    )
    secret_access_key: SecretKey | None = None
    default_bucket: Annotated[str, Field(min_length=3, max_length=222), _GCS_BUCKET]
    endpoint_url: Endpoint | None = Field(
        None,
        description="Another server with the JSON API, or the XML API for an HMAC key; only hosts that the operator "
        "allows.",
    )

    @model_validator(mode="after")
    def _one_credential(self) -> "AddGcsBucket":
        self._place()
        return self

    def _place(self) -> tuple[GcsSettings, str]:
        return GcsSettings(None, self.endpoint_url).rotated(_credentials(self, GcsSettings))

    def new_bucket(self) -> NewBucket:
        """Return the bucket as the service takes it."""
        return _new_bucket(self, *self._place())


def _provider_of(body: object) -> str:
    """Return the provider that a body names; without one it is S3."""
    named = body.get("provider", S3Settings.provider) if isinstance(body, dict) else S3Settings.provider
    return named if isinstance(named, str) else S3Settings.provider


AnyNewBucket = Annotated[
    Annotated[AddBucket, Tag(S3Settings.provider)]
    | Annotated[AddAzureBucket, Tag(AzureSettings.provider)]
    | Annotated[AddGcsBucket, Tag(GcsSettings.provider)],
    Discriminator(_provider_of),
]


def _credentials(body: RequestBody, provider: type[ProviderSettings]) -> dict[str, str]:
    """Return the credentials among the fields that were sent, each as it is."""
    sent = {field.name: getattr(body, field.name) for field in provider.fields if field.is_credential}
    return {name: _plain(value) for name, value in sent.items() if value is not None}


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _new_bucket(body: AddBucket | AddAzureBucket | AddGcsBucket, settings: ProviderSettings, secret: str) -> NewBucket:
    return NewBucket(body.name, settings, secret, body.default_bucket, body.base_path, body.set_as_default)


class UpdateBucket(UpdateBody):
    """Fields of a bucket to be changed. Credentials are those of its provider, complete."""

    model_config = ConfigDict(json_schema_extra=without_defaults({"name": "archive-eu"}))

    name: Name = ""
    access_key_id: AccessKeyId = ""
    secret_access_key: SecretKey = SecretStr("")
    account_key: AccountKey = SecretStr("")
    sas_token: SasToken = SecretStr("")
    directory_id: DirectoryId = ""
    client_id: ClientId = ""
    client_secret: ClientSecret = SecretStr("")
    service_account_key: ServiceAccountKey = SecretStr("")
    is_active: bool = True

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        return {name: _plain(value) if isinstance(value, SecretStr) else value for name, value in sent.items()}


class BucketOut(ResponseBody):
    """A bucket, its access key masked, its secret absent."""

    config_id: str
    tenant_id: str
    name: str
    provider: Literal["objstore_s3", "azure_blob", "gcs"] = "objstore_s3"
    access_key_id: str | None
    region: str | None
    settings: dict[str, str] = Field(
        {}, exclude_if=_is_empty, description="Of another provider than S3: what may be shown of its settings."
    )
    default_bucket: str
    base_path: str
    is_active: bool
    is_default: bool
    created_at: datetime
    updated_at: datetime | None

    @classmethod
    def of(cls, bucket: Bucket) -> "BucketOut":
        """Return the bucket as it may be shown."""
        shown = bucket.settings.shown()
        return cls(
            config_id=bucket.config_id,
            tenant_id=bucket.tenant_id,
            name=bucket.name,
            provider=bucket.settings.provider,
            access_key_id=shown.get("access_key_id"),
            region=shown.get("region"),
            settings={} if isinstance(bucket.settings, S3Settings) else dict(shown),
            default_bucket=bucket.default_bucket,
            base_path=bucket.base_path,
            is_active=bucket.is_active,
            is_default=bucket.is_default,
            created_at=bucket.created_at,
            updated_at=bucket.updated_at,
        )


class BucketDeleted(ResponseBody):
    """A bucket was forgotten; its objects were not touched."""

    config_id: str
    deleted: Literal[True] = True
