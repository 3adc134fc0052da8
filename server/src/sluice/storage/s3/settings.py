"""The settings of a bucket of S3, at AWS or at any server with its API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Self
from urllib.parse import SplitResult

from sluice.kit.text import masked
from sluice.storage.protocol import Connection, FieldRefused, ObjectStore, ProviderField, ProviderSettings

_KEY_PAIR: Final = ("access_key_id", "secret_access_key")


@dataclass(frozen=True, slots=True)
class S3Settings(ProviderSettings):
    """The secret is the secret access key. `endpoint_url` None is AWS."""

    provider: ClassVar[str] = "objstore_s3"
    title: ClassVar[str] = "S3"
    scheme: ClassVar[str] = "s3"
    fields: ClassVar[Sequence[ProviderField]] = (
        ProviderField("region", "Region", "Such as eu-central-1. Empty: us-east-1.", required=False, max_length=63),
        ProviderField("endpoint_url", "Endpoint", "Empty: AWS. Only hosts that the operator allows.", required=False),
        ProviderField("access_key_id", "Access key", min_length=16, max_length=128, rotates=True),
        ProviderField("secret_access_key", "Secret access key", max_length=512, secret=True, rotates=True),
    )

    access_key_id: str = field(repr=False)
    region: str
    endpoint_url: str | None = None

    @classmethod
    def of_platform(cls, url: SplitResult, given: Mapping[str, str]) -> tuple[Self, str, str]:
        """Return the operator's own bucket, which a key pair opens."""
        if not given.keys() >= set(_KEY_PAIR):
            raise FieldRefused("SLUICE_STORAGE_ACCESS_KEY_ID and SLUICE_STORAGE_SECRET_ACCESS_KEY are needed beside it")
        settings = cls(given["access_key_id"], given["region"], given.get("endpoint_url"))
        return settings, url.netloc, given["secret_access_key"]

    def shown(self) -> Mapping[str, str]:
        """Return the fields that may be shown."""
        return {
            "region": self.region,
            "endpoint_url": self.endpoint_url or "AWS",
            "access_key_id": masked(self.access_key_id),
        }

    def rotated(self, sent: Mapping[str, str]) -> tuple[Self, str]:
        """Return the settings with another key pair, and its secret."""
        for name in sent:
            if name not in _KEY_PAIR:
                raise FieldRefused("unknown field for a bucket of S3", name)
        for name in _KEY_PAIR:
            if name not in sent:
                raise FieldRefused("access_key_id and secret_access_key change together: send both")
        return replace(self, access_key_id=sent["access_key_id"]), sent["secret_access_key"]

    def connect(self, bucket: str, secret: str, connection: Connection) -> ObjectStore:
        """Return the bucket's store, whose signatures and HTTP clients are loaded now."""
        from sluice.storage.s3.store import S3Store  # noqa: PLC0415

        return S3Store(
            bucket,
            self.region,
            self.access_key_id,
            secret,
            endpoint_url=self.endpoint_url,
            timeouts=connection.timeouts,
            part_bytes=connection.part_bytes,
            probe_folder=connection.probe_folder,
            rest_seconds=connection.rest_seconds,
            before=connection.before,
            relay_url=connection.relay_url,
        )
