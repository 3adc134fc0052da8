"""A tenant's bucket of Google Cloud Storage through the interface: added, used, given another key, and what is refused."""

import json
from dataclasses import replace

import httpx

from tests.api.responses import data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers.fake_gcs import EMAIL, FakeGcs, service_account_key
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
