"""The platform store in an S3 bucket, where files of tenants without a bucket go when it is configured."""

import secrets
from dataclasses import replace

import httpx

from tests.api.responses import data
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.servers.radosgw import RadosGateway
from tests.service import running_service


def test_files_of_a_tenant_without_a_bucket_go_to_the_platform(deployments: Deployments, gateway: RadosGateway) -> None:
    bucket = gateway.create_bucket(f"platform-{secrets.token_hex(8)}")
    settings = {
        "SCANNER": "builtin",
        "STORAGE_BUCKET": bucket,
        "STORAGE_ENDPOINT": gateway.endpoint,
        "STORAGE_ACCESS_KEY_ID": gateway.access_key,
        "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
    }
    with running_service(replace(deployments.fresh("sqlite-local"), settings=settings)) as service:
        client = service.new_client()
        stored = data(client.upload("a.txt", TEXT, context=client.create_context()), 201)
        link = data(client.request("GET", f"/files/{stored['file_id']}"))
        assert link["download_url"].startswith(gateway.endpoint)
        assert httpx.get(link["download_url"]).content == TEXT
        assert len(gateway.keys(bucket)) == 1
