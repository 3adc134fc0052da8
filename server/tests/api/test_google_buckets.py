"""A tenant's bucket of Google Cloud Storage through the interface: added, used, given another key, and what is refused."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx

from tests.api.responses import data
from tests.api.samples import noise
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers.fake_gcs import EMAIL, FakeGcs, service_account_key
from tests.servers.google_xml import ACCESS_ID, running_google_xml
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, running_service


def test_bucket_of_google_takes_files_until_it_is_gone(deployments: Deployments, gcs: FakeGcs) -> None:
    deployment = deployments.fresh("sqlite-local")
    secret, masked = service_account_key(), f"{ACCESS_ID[:4]}…{ACCESS_ID[-4:]}"
    with in_a_thread(running_google_xml()) as xml:
        hosts = ",".join(url.removeprefix("http://") for url in (gcs.endpoint, xml.url))
        settings = {"BUCKET_ENDPOINT_HOSTS": hosts, "PURGE_AFTER_DAYS": "0"}
        with running_service(replace(deployment, settings={**deployment.settings, **settings})) as service:
            client = service.new_client()
            of_json = {
                "default_bucket": gcs.fresh_bucket(),
                "endpoint_url": gcs.endpoint,
                "service_account_key": secret,
            }
            added = takes_files(client, of_json, lambda: gcs.keys(of_json["default_bucket"]))
            assert added["settings"]["service_account"] == EMAIL
            of_xml = {"default_bucket": xml.fresh_bucket(), "endpoint_url": xml.url}
            of_xml |= {"access_key_id": ACCESS_ID, "secret_access_key": xml.secret}
            by_hmac = takes_files(client, of_xml, lambda: list(xml.buckets[of_xml["default_bucket"]]))
            assert by_hmac["access_key_id"] == by_hmac["settings"]["access_key_id"] == masked
            assert xml.uploads == {}
            rotated = client.patch(
                f"{client.buckets}/{added['config_id']}", {"service_account_key": service_account_key("b@c.example")}
            )
            assert data(rotated)["settings"]["service_account"] == "b@c.example"
            pair = {"access_key_id": ACCESS_ID, "secret_access_key": "another"}
            refused = client.patch(f"{client.buckets}/{by_hmac['config_id']}", pair)
            assert "The secret does not fit the access ID of the HMAC key" in refused.text
            log = service.log.read_text(errors="replace")
            assert json.loads(secret)["private_key"][40:60] not in log
            assert xml.secret not in log


def takes_files(client: ApiClient, place: Mapping[str, str], keys: Callable[[], list[str]]) -> dict[str, Any]:
    """Add a bucket, store files in it, download them by its links and delete them; return the bucket."""
    body = {"provider": "gcs", "name": place["endpoint_url"], "base_path": "intake", "set_as_default": True, **place}
    missing = client.post(client.buckets, body | {"default_bucket": "no-such-bucket"})
    assert missing.status_code == 422
    assert "There is no bucket of this name" in missing.text
    added: dict[str, Any] = data(client.post(client.buckets, body), 201)
    assert added["provider"] == "gcs"
    assert keys() == [], "the object that tried it out is gone"
    context = client.create_context(max_file_size_mb=20)
    contents = [noise(3000), noise(9 * 1024 * 1024)]  # in one request, and in parts
    files = [data(client.upload("a.zzz", content, context=context), 201)["file_id"] for content in contents]
    for file_id, content in zip(files, contents, strict=True):
        link = data(client.get(f"/files/{file_id}"))["download_url"]
        assert f"/{place['default_bucket']}/intake/" in link
        assert httpx.get(link, trust_env=False).content == content
    for file_id in files:
        data(client.delete(f"/files/{file_id}"))
    assert until(lambda: keys() == [], 30)
    return added
