"""Where uploads go and where files are found: routing, paths in the bucket, changing and switching off a bucket. All in a real S3."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.api.answers import data, invalid, is_now, refused
from tests.api.samples import TEXT, noise
from tests.gate import Gate
from tests.servers.radosgw import RadosGateway


def _download(gate: Gate, file_id: str) -> bytes:
    return httpx.get(data(gate.get(f"/files/{file_id}"))["download_url"], timeout=30).content


# where uploads go


def test_an_upload_lands_in_the_default_bucket_under_its_base_path(s3: RadosGateway, weir: Gate) -> None:
    bucket = s3.fresh_bucket()
    weir.bucket(default_bucket=bucket, base_path="/intake/a/")
    context = weir.context()
    file_id = weir.store("a.txt", context=context)
    now = datetime.now(UTC)
    assert s3.keys(bucket) == [f"intake/a/{weir.tenant_id}/{context}/{now:%Y}/{now:%m}/{file_id}.txt"]
    stored = s3.client.get_object(Bucket=bucket, Key=s3.keys(bucket)[0])
    assert stored["Body"].read() == TEXT


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{context_key}/{file_id}", "{context}/{file_id}"),
        ("by-sum/{sha256}", "by-sum/{sum}/{file_id}.txt"),
        ("plain", "plain/{file_id}.txt"),
        ("{tenant_id}/x-{file_id}{extension}", "{tenant}/x-{file_id}.txt"),
    ],
)
def test_the_template_makes_the_key(s3: RadosGateway, weir: Gate, template: str, expected: str) -> None:
    bucket = s3.fresh_bucket()
    weir.bucket(default_bucket=bucket, base_path="")
    context = weir.context(storage_path_template=template)
    file_id = weir.store("a.txt", context=context)
    key = expected.format(context=context, file_id=file_id, tenant=weir.tenant_id, sum=hashlib.sha256(TEXT).hexdigest())
    assert s3.keys(bucket) == [key]
    assert data(weir.get(f"/contexts/{context}"))["storage_path_template"] == template


def test_a_context_is_routed_to_its_bucket(s3: RadosGateway, weir: Gate) -> None:
    ordinary, special = s3.fresh_bucket(), s3.fresh_bucket()
    weir.bucket(default_bucket=ordinary)
    routed = weir.context(storage_config_id=weir.bucket(default_bucket=special)["config_id"])
    file_id = weir.store(context=routed)
    assert (len(s3.keys(ordinary)), len(s3.keys(special))) == (0, 1)
    assert _download(weir, file_id) == TEXT


def test_a_rerouted_context_leaves_its_files_where_they_are(s3: RadosGateway, weir: Gate) -> None:
    before, after = s3.fresh_bucket(), s3.fresh_bucket()
    weir.bucket(default_bucket=before)
    config_id = weir.bucket(default_bucket=after)["config_id"]
    context = weir.context()
    first = weir.store("a.zzz", noise(100), context=context)
    assert data(weir.patch(f"/contexts/{context}", {"storage_config_id": config_id}))["storage_config_id"] == config_id
    second = weir.store("b.zzz", noise(200), context=context)
    assert (len(s3.keys(before)), len(s3.keys(after))) == (1, 1)
    assert (_download(weir, first), _download(weir, second)) == (noise(100), noise(200))


def test_the_default_moves_new_uploads_and_no_old_ones(s3: RadosGateway, weir: Gate) -> None:
    before, after = s3.fresh_bucket(), s3.fresh_bucket()
    weir.bucket(default_bucket=before)
    context = weir.context()
    first = weir.store("a.zzz", noise(100), context=context)
    weir.bucket(default_bucket=after, set_as_default=True)
    weir.store(context=context)
    assert (len(s3.keys(before)), len(s3.keys(after))) == (1, 1)
    assert _download(weir, first) == noise(100)


def test_a_file_from_before_the_first_bucket_stays_downloadable(s3: RadosGateway, weir: Gate) -> None:
    context = weir.context()
    file_id = weir.store(context=context)
    weir.bucket()
    assert _download(weir, file_id) == TEXT


def test_files_of_a_forgotten_bucket_resolve_to_the_default(s3: RadosGateway, weir: Gate) -> None:
    """Two configurations of one S3 bucket: forgetting the one leaves its files reachable by the other."""
    bucket = s3.fresh_bucket()
    weir.bucket(default_bucket=bucket)
    config_id = weir.bucket(default_bucket=bucket)["config_id"]
    context = weir.context(storage_config_id=config_id)
    file_id = weir.store(context=context)
    weir.patch(f"/contexts/{context}", {"storage_config_id": ""})
    answer = weir.delete(f"{weir.buckets}/{config_id}")
    assert data(answer) == {"config_id": config_id, "deleted": True}
    assert "1" in answer.json()["message"]
    assert len(s3.keys(bucket)) == 1
    assert _download(weir, file_id) == TEXT


def test_a_key_that_no_store_takes_is_refused_with_the_template(s3: RadosGateway, weir: Gate) -> None:
    """S3 keys have at most 1,024 bytes; a template that renders to more is told so when it is set, or works."""
    weir.bucket(base_path="p" * 400)
    answer = weir.post(
        "/contexts", {"context_key": "long", "display_name": "x", "storage_path_template": "{sha256}/" * 50 + "{file_id}"}
    )
    if answer.status_code == 422:
        invalid(answer, "storage_path_template")
        return
    assert weir.upload(context="long").status_code == 201


# changing a bucket


def test_a_bucket_is_renamed(weir: Gate) -> None:
    added = weir.bucket()
    changed = data(weir.patch(f"{weir.buckets}/{added['config_id']}", {"name": "renamed"}))
    assert is_now(changed["updated_at"])
    assert changed == added | {"name": "renamed", "updated_at": changed["updated_at"]}


def test_a_bucket_is_not_renamed_to_a_taken_name(weir: Gate) -> None:
    weir.bucket(name="taken")
    answer = weir.patch(f"{weir.buckets}/{weir.bucket()['config_id']}", {"name": "taken"})
    assert answer.status_code == 409


def test_an_empty_change_changes_nothing(weir: Gate) -> None:
    added = weir.bucket()
    assert data(weir.patch(f"{weir.buckets}/{added['config_id']}", {})) == added


BAD_CHANGES: list[dict[str, Any]] = [
    {"default_bucket": "another"},
    {"base_path": "another"},
    {"region": "eu-central-1"},
    {"endpoint_url": None},
    {"is_default": True},
    {"set_as_default": True},
    {"surprise": 1},
    {"name": ""},
    {"name": None},
    {"is_active": "false"},
    {"is_active": None},
]


@pytest.mark.parametrize("change", BAD_CHANGES, ids=str)
def test_what_can_not_be_changed_is_refused(s3: RadosGateway, gate: Gate, change: dict[str, Any]) -> None:
    (bucket,) = data(gate.get(gate.buckets))
    invalid(gate.patch(f"{gate.buckets}/{bucket['config_id']}", change), next(iter(change)))
    assert data(gate.get(gate.buckets)) == [bucket]


@pytest.mark.parametrize("half", ["access_key_id", "secret_access_key"])
@pytest.mark.asvs("2.2.3", "2.1.2")
def test_half_a_credential_is_refused(s3: RadosGateway, gate: Gate, half: str) -> None:
    (bucket,) = data(gate.get(gate.buckets))
    answer = gate.patch(f"{gate.buckets}/{bucket['config_id']}", {half: "x" * 20})
    assert answer.status_code == 422
    assert all(": " in problem for problem in answer.json()["errors"])


def test_a_wrong_credential_is_not_rotated_to(s3: RadosGateway, gate: Gate) -> None:
    (bucket,) = data(gate.get(gate.buckets))
    wrong = {"access_key_id": s3.access_key, "secret_access_key": "canary-secret-that-is-never-told"}
    answer = gate.patch(f"{gate.buckets}/{bucket['config_id']}", wrong)
    assert answer.status_code == 422
    assert "canary" not in answer.text
    gate.store(context=gate.context())


def test_a_right_credential_is_rotated_to(s3: RadosGateway, gate: Gate) -> None:
    (bucket,) = data(gate.get(gate.buckets))
    right = {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key}
    assert is_now(data(gate.patch(f"{gate.buckets}/{bucket['config_id']}", right))["updated_at"])
    gate.store(context=gate.context())


# switching a bucket off


INACTIVE = ("Bucket is inactive", "Set the bucket's is_active to true, or choose another bucket")


@pytest.fixture
def off(weir: Gate) -> str:
    """A second bucket, switched off."""
    weir.bucket()
    config_id = str(weir.bucket()["config_id"])
    assert data(weir.patch(f"{weir.buckets}/{config_id}", {"is_active": False}))["is_active"] is False
    return config_id


def test_the_default_can_not_be_switched_off(weir: Gate) -> None:
    config_id = weir.bucket()["config_id"]
    answer = weir.patch(f"{weir.buckets}/{config_id}", {"is_active": False})
    refused(answer, 409, "The default bucket cannot be made inactive", "Set another default first")
    assert data(weir.get(f"{weir.buckets}/{config_id}"))["is_active"] is True


def test_an_inactive_bucket_can_not_become_the_default(weir: Gate, off: str) -> None:
    refused(weir.post(f"{weir.buckets}/{off}/set-default"), 409, *INACTIVE)


def test_no_context_is_routed_to_an_inactive_bucket(weir: Gate, off: str) -> None:
    body = {"context_key": "papers", "display_name": "x", "storage_config_id": off}
    refused(weir.post("/contexts", body), 409, *INACTIVE)
    context = weir.context()
    refused(weir.patch(f"/contexts/{context}", {"storage_config_id": off}), 409, *INACTIVE)


def test_an_inactive_bucket_takes_no_uploads_and_still_gives_its_files(weir: Gate) -> None:
    weir.bucket()
    config_id = weir.bucket()["config_id"]
    context = weir.context(storage_config_id=config_id)
    file_id = weir.store(context=context)
    weir.patch(f"{weir.buckets}/{config_id}", {"is_active": False})
    refused(weir.upload(context=context), 409, *INACTIVE)
    assert weir.used(context) == len(TEXT)
    assert _download(weir, file_id) == TEXT
    weir.patch(f"{weir.buckets}/{config_id}", {"is_active": True})
    weir.store(context=context)


def test_an_inactive_bucket_can_be_deleted(weir: Gate, off: str) -> None:
    data(weir.delete(f"{weir.buckets}/{off}"))
