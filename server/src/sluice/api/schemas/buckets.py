"""Bodies of the storage bucket endpoints."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from sluice.api.schemas.envelope import PLAIN, RequestBody, ResponseBody, UpdateBody, expecting, without_defaults
from sluice.buckets import Bucket
from sluice.buckets.service import NewBucket
from sluice.storage import SERVICE_FOLDERS, is_in_service_folder

_BASE_PATH: Final = re.compile(r"[A-Za-z0-9!_.*'()/=@+, -]*")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*[A-Za-z0-9]")
_PRINTABLE: Final = expecting("printable ASCII without spaces", re.compile(r"[\x21-\x7e]+").fullmatch)
_REGION: Final = expecting(
    "lower-case letters, digits and hyphens, such as 'eu-central-1'",
    re.compile(r"(?!xn--)[a-z0-9][a-z0-9-]*").fullmatch,  # it becomes a label of a host name
)


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


Name = Annotated[str, Field(min_length=1, max_length=100, examples=["archive"]), PLAIN]
AccessKeyId = Annotated[str, Field(min_length=16, max_length=128), _PRINTABLE]
SecretKey = Annotated[SecretStr, Field(min_length=1, max_length=512, description="Encrypted at rest, never returned.")]


class AddBucket(RequestBody):
    """A bucket to be added.

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

    name: Name
    access_key_id: AccessKeyId
    secret_access_key: SecretKey
    default_bucket: Annotated[str, Field(min_length=3, max_length=63), AfterValidator(_bucket)]
    region: Annotated[str, Field(min_length=1, max_length=63), _REGION] = "us-east-1"
    base_path: Annotated[str, Field(max_length=400), AfterValidator(_base_path)] = ""
    endpoint_url: Annotated[str, Field(min_length=1, max_length=500), PLAIN] | None = Field(
        None, description="Another S3 service; only hosts that the operator allows."
    )
    set_as_default: bool = False

    def new_bucket(self) -> NewBucket:
        """Return the bucket as the service takes it."""
        return NewBucket(
            name=self.name,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key.get_secret_value(),
            region=self.region,
            default_bucket=self.default_bucket,
            base_path=self.base_path,
            endpoint_url=self.endpoint_url,
            set_as_default=self.set_as_default,
        )


class UpdateBucket(UpdateBody):
    """Fields of a bucket to be changed. Credentials change both together."""

    model_config = ConfigDict(json_schema_extra=without_defaults({"name": "archive-eu"}))

    name: Name = ""
    access_key_id: AccessKeyId = ""
    secret_access_key: SecretKey = SecretStr("")
    is_active: bool = True

    @model_validator(mode="after")
    def _both_credentials(self) -> "UpdateBucket":
        if len({"access_key_id", "secret_access_key"} & self.model_fields_set) == 1:
            raise ValueError("access_key_id and secret_access_key change together: send both")
        return self

    def changes(self) -> Mapping[str, Any]:
        """Return the fields that were sent, as the service takes them."""
        sent: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "secret_access_key" in sent:
            sent["secret_access_key"] = self.secret_access_key.get_secret_value()
        return sent


class BucketOut(ResponseBody):
    """A bucket, its access key masked, its secret absent."""

    config_id: str
    tenant_id: str
    name: str
    provider: Literal["objstore_s3"] = "objstore_s3"
    access_key_id: str
    region: str
    default_bucket: str
    base_path: str
    is_active: bool
    is_default: bool
    created_at: datetime
    updated_at: datetime | None

    @classmethod
    def of(cls, bucket: Bucket) -> "BucketOut":
        """Return the bucket as it may be shown."""
        return cls(
            config_id=bucket.config_id,
            tenant_id=bucket.tenant_id,
            name=bucket.name,
            access_key_id=bucket.masked_access_key_id,
            region=bucket.region,
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
