"""A tenant's bucket of Google Cloud Storage through the interface: added, used, given another key, and what is refused."""

import json
from dataclasses import replace

import httpx

from tests.api.responses import data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers.fake_gcs import EMAIL, FakeGcs, service_account_key
from tests.servers.google_xml import ACCESS_ID, running_google_xml
from tests.servers.threads import in_a_thread
from tests.service import running_service


def test_bucket_of_google_takes_files_until_it_is_gone(deployments: Deployments, gcs: FakeGcs) -> None:
    deployment = deployments.fresh("sqlite-local")
    settings = {"BUCKET_ENDPOINT_HOSTS": gcs.endpoint.removeprefix("http://"), "PURGE_AFTER_DAYS": "0"}
    bucket, secret = gcs.fresh_bucket(), service_account_key()
    with running_service(replace(deployment, settings={**deployment.settings, **settings})) as service:
        client = service.new_client()
        body = {
            "provider": "gcs",
            "name": "archive",
            "default_bucket": bucket,
            "endpoint_url": gcs.endpoint,
            "service_account_key": secret,
            "base_path": "intake",
        }
        missing = client.post(client.buckets, body | {"default_bucket": "no-such-bucket"})
        assert missing.status_code == 422
        assert "There is no bucket of this name" in missing.text
        added = data(client.post(client.buckets, body), 201)
        assert (added["provider"], added["settings"]["service_account"]) == ("gcs", EMAIL)
        assert gcs.keys(bucket) == [], "the object that tried it out is gone"
        context = client.create_context(max_file_size_mb=20)
        contents = [noise(3000), noise(9 * 1024 * 1024)]  # in one request, and in parts
        files = [data(client.upload("a.zzz", content, context=context), 201)["file_id"] for content in contents]
        for file_id, content in zip(files, contents, strict=True):
            link = data(client.get(f"/files/{file_id}"))["download_url"]
            assert f"/{bucket}/intake/" in link
            assert httpx.get(link, trust_env=False).content == content
        rotated = client.patch(
            f"{client.buckets}/{added['config_id']}", {"service_account_key": service_account_key("b@c.example")}
        )
        assert data(rotated)["settings"]["service_account"] == "b@c.example"
        assert json.loads(secret)["private_key"][40:60] not in service.log.read_text(errors="replace")
        for file_id in files:
            data(client.delete(f"/files/{file_id}"))
        assert until(lambda: gcs.keys(bucket) == [], 30)


def test_bucket_of_google_is_opened_by_an_hmac_key(deployments: Deployments) -> None:
    deployment = deployments.fresh("sqlite-local")
    with in_a_thread(running_google_xml()) as google:
        bucket = google.fresh_bucket()
        settings = {"BUCKET_ENDPOINT_HOSTS": google.url.removeprefix("http://")}
        with running_service(replace(deployment, settings={**deployment.settings, **settings})) as service:
            client = service.new_client()
            key = {"access_key_id": ACCESS_ID, "secret_access_key": google.secret}
            body = {"provider": "gcs", "name": "a", "default_bucket": bucket, "endpoint_url": google.url}
            refused = client.post(client.buckets, body | key | {"secret_access_key": "another"})
            assert "The secret does not fit the access ID of the HMAC key" in refused.text
            added = data(client.post(client.buckets, body | key), 201)
            assert added["access_key_id"] == added["settings"]["access_key_id"] == f"{ACCESS_ID[:4]}…{ACCESS_ID[-4:]}"
            context = client.create_context(max_file_size_mb=20)
            for content in (noise(3000), noise(9 * 1024 * 1024)):  # in one request, and in parts
                file_id = data(client.upload("a.zzz", content, context=context), 201)["file_id"]
                link = data(client.get(f"/files/{file_id}"))["download_url"]
                assert httpx.get(link, trust_env=False).content == content
            data(client.patch(f"{client.buckets}/{added['config_id']}", key))
            assert google.secret not in service.log.read_text(errors="replace")
    assert (len(google.buckets[bucket]), google.uploads) == (2, {})
