"""The platform's own store in an S3 bucket: where the files of tenants without a bucket go when the operator says so."""

import secrets
from dataclasses import replace

import httpx

from tests.api.answers import data
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.gate import running_service
from tests.servers.radosgw import RadosGateway


def test_files_of_a_tenant_without_a_bucket_land_in_the_platforms_bucket(places: Places, gateway: RadosGateway) -> None:
    bucket = gateway.create_bucket(f"platform-{secrets.token_hex(8)}")
    settings = {
        "SCANNER": "builtin",
        "STORAGE_BUCKET": bucket,
        "STORAGE_ENDPOINT": gateway.endpoint,
        "STORAGE_ACCESS_KEY_ID": gateway.access_key,
        "STORAGE_SECRET_ACCESS_KEY": gateway.secret_key,
    }
    with running_service(replace(places.fresh("sqlite-local"), settings=settings)) as service:
        gate = service.new_gate()
        stored = data(gate.upload("a.txt", TEXT, context=gate.context()), 201)
        link = data(gate.ask("GET", f"/files/{stored['file_id']}"))
        assert link["download_url"].startswith(gateway.endpoint)
        assert httpx.get(link["download_url"]).content == TEXT
        assert len(gateway.keys(bucket)) == 1
