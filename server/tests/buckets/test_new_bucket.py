"""What may be said of a new bucket of each provider, and what is answered to anything else."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import TypeAdapter, ValidationError

from sluice.api.error_responses import describe
from sluice.api.schemas.buckets import AddAzureBucket, AddGcsBucket, AnyNewBucket
from sluice.buckets import BucketProbe, ProbedStep
from sluice.storage import AzureSettings, FieldRefused, GcsSettings, S3Settings, settings_of, values_of

BODY: TypeAdapter[Any] = TypeAdapter(AnyNewBucket)
UUID = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
CLIENT = {"directory_id": UUID, "client_id": UUID, "client_secret": "secret-of-client"}
AZURE = {"provider": "azure_blob", "name": "a", "default_bucket": "intake", "account": "acmeuploads"}
GCS = {"provider": "gcs", "name": "a", "default_bucket": "intake"}
KEY = '{"client_email": "sluice@acme.iam.gserviceaccount.com", "private_key": "-----BEGIN"}'
HMAC = {"access_key_id": "GOOG1EXAMPLEEXAMPLE", "secret_access_key": "secret-of-hmac"}
OF_AZURE = "body: expected account_key, sas_token or client_secret, found "
OF_GCS = "body: expected service_account_key, or access_key_id and secret_access_key, found "
NO_KEY = "service_account_key: expected the JSON of a service account's key, with client_email and private_key"
CLIENT_ONLY = "body: directory_id and client_id are only for client_secret"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (AZURE, OF_AZURE + "none of them"),
        (AZURE | {"account_key": "k", "sas_token": "t"}, OF_AZURE + "account_key and sas_token"),
        (AZURE | {"client_secret": "secret-of-client"}, "body: client_secret is expected with directory_id and client_id"),
        (AZURE | {"sas_token": "t", "client_id": UUID}, CLIENT_ONLY),
        (AZURE | CLIENT | {"client_id": "me"}, "client_id: expected at least 36 characters, found 2"),
        (AZURE | {"account_key": "k", "account": "Acme"}, "account: expected lower-case letters and digits"),
        (
            AZURE | {"account_key": "k", "default_bucket": "in--take"},
            "default_bucket: expected lower-case letters, digits and single hyphens between them",
        ),
        (AZURE | {"account_key": "k", "region": "x"}, "region: unknown field"),
        (GCS, OF_GCS + "none of them"),
        (GCS | HMAC | {"service_account_key": KEY}, OF_GCS + "access_key_id and secret_access_key and service_account_key"),
        (GCS | {"secret_access_key": "s"}, OF_GCS + "secret_access_key"),
        (GCS | HMAC | {"account_key": "k"}, "account_key: unknown field"),
        (GCS | {"service_account_key": "{"}, NO_KEY),
        (GCS | {"service_account_key": '{"client_email": "a@b"}'}, NO_KEY),
        (
            GCS | {"service_account_key": KEY, "default_bucket": "Intake"},
            "default_bucket: expected lower-case letters, digits, hyphens",
        ),
        ({"provider": "dropbox"}, "provider: expected one of objstore_s3, azure_blob, gcs"),
    ],
)  # fmt: skip
def test_wrong_body_is_answered_with_the_field_and_what_was_expected(body: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        BODY.validate_python(body)
    (said,) = describe([{**each, "loc": ("body", *each["loc"])} for each in refused.value.errors()])
    assert said.startswith(problem)


@pytest.mark.parametrize(
    ("body", "settings", "secret"),
    [
        (AZURE | {"account_key": "secret-key"}, AzureSettings("acmeuploads", "account_key"), "secret-key"),
        (AZURE | {"sas_token": "secret-sas"}, AzureSettings("acmeuploads", "sas_token"), "secret-sas"),
        (AZURE | CLIENT, AzureSettings("acmeuploads", "client_secret", UUID, UUID), "secret-of-client"),
        (
            GCS | {"service_account_key": KEY},
            GcsSettings("sluice@acme.iam.gserviceaccount.com"),
            KEY,
        ),
        (GCS | HMAC, GcsSettings(None, access_key_id="GOOG1EXAMPLEEXAMPLE"), "secret-of-hmac"),
    ],
)
def test_each_kind_of_credential_is_taken_stored_and_shown_without_its_secret(
    body: dict[str, Any], settings: AzureSettings | GcsSettings, secret: str
) -> None:
    wanted: AddAzureBucket | AddGcsBucket = BODY.validate_python(body)
    new = wanted.new_bucket()
    assert (new.settings, new.secret) == (settings, secret)
    assert settings_of(settings.provider, values_of(settings)) == settings
    assert not {secret, body.get("access_key_id")} & set(settings.shown().values())
    assert secret not in repr(wanted)


def test_credentials_of_a_bucket_can_change_into_another_kind_of_the_same_provider() -> None:
    client = AzureSettings("acmeuploads", "client_secret", UUID, UUID, "https://acme.example")
    assert client.rotated({"client_secret": "new"}) == (client, "new")
    assert client.rotated({"sas_token": "t"}) == (
        AzureSettings("acmeuploads", "sas_token", endpoint_url="https://acme.example"),
        "t",
    )
    of_account, of_hmac = (
        GcsSettings("sluice@acme.iam.gserviceaccount.com", "https://acme.example"),
        GcsSettings(None, "https://acme.example", "GOOG1EXAMPLEEXAMPLE"),
    )
    for before in (of_account, of_hmac):
        assert before.rotated({"service_account_key": KEY}) == (of_account, KEY)
        assert before.rotated(HMAC) == (of_hmac, "secret-of-hmac")
    for settings, field in ((S3Settings("A", "r"), "sas_token"), (client, "access_key_id")):
        with pytest.raises(FieldRefused, match="unknown field"):
            settings.rotated({field: "x"})


def test_bucket_of_google_for_the_platform_has_one_credential() -> None:
    url, hmac = urlsplit("gs://intake"), HMAC | {"region": "us-east-1"}
    assert GcsSettings.of_platform(url, hmac) == (
        GcsSettings(None, access_key_id="GOOG1EXAMPLEEXAMPLE"),
        "intake",
        "secret-of-hmac",
    )
    assert GcsSettings.of_platform(url, {"secret": KEY})[2] == KEY
    for given in ({}, hmac | {"secret": KEY}, {"access_key_id": "GOOG1"}, {"access_key_id": "GOOG1", "secret": KEY}):
        with pytest.raises(
            FieldRefused, match=r"SLUICE_STORAGE_SECRET, .* or an HMAC key as SLUICE_STORAGE_ACCESS_KEY_ID"
        ):
            GcsSettings.of_platform(url, given)


def test_a_probe_is_read_back_with_its_remarks_also_one_that_was_kept_before_there_were_any() -> None:
    probe = BucketProbe(datetime(2026, 1, 2, tzinfo=UTC), (ProbedStep("write", "No.", "403"),), ("It expires soon.",))
    assert BucketProbe.from_json(probe.to_json()) == probe
    kept = {name: value for name, value in probe.to_json().items() if name != "remarks"}
    assert BucketProbe.from_json(kept).remarks == ()
