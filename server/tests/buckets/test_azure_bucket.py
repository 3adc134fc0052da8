"""A tenant's container of Azure in a running service: its token is revoked while files are uploaded."""

import os

import httpx

from tests.api.responses import data
from tests.api.samples import TEXT
from tests.deployments import Deployments
from tests.scanning.waiting import until
from tests.servers.azurite import Azurite
from tests.service import running_service

LARGE = b"\x07\x1b" + os.urandom(6_000_000)
"""A file of no known format, which is sent in blocks."""


def test_revoked_token_makes_uploads_fail_and_loses_nothing(deployments: Deployments, azurite: Azurite) -> None:
    container = azurite.fresh_container()
    azurite.set_policy(container, "sluice", "rcwdl")
    token = azurite.sas(container, policy="sluice")
    hosts = azurite.endpoint.removeprefix("http://")
    settings = {"BUCKET_ENDPOINT_HOSTS": hosts, "S3_REST_SECONDS": "0.1", "S3_MULTIPART_MB": "5"}
    with running_service(deployments.fresh("sqlite-local"), **settings) as service:
        client = service.new_client()
        body = {"provider": "azure_blob", "name": "azure", "account": azurite.account, "default_bucket": container}
        added = client.post(client.buckets, body | {"sas_token": token, "endpoint_url": azurite.endpoint})
        assert "sig=" not in str(data(added, 201))
        context = client.create_context()
        kept = client.store(context=context)
        used = client.used_bytes(context)
        link = data(client.get(f"/files/{kept}"))["download_url"]
        assert link.startswith(service.url)

        azurite.set_policy(container, "sluice", "")
        refused = [client.upload("a.zzz", content, context=context) for content in (b"\x07\x1b1", LARGE)]
        assert [response.status_code for response in refused] == [503, 503]
        assert "sig=" not in "".join(response.text for response in refused)
        assert client.used_bytes(context) == used

        azurite.set_policy(container, "sluice", "rcwdl")
        assert httpx.get(link).content == TEXT
        # The store may be left alone for a moment after its failures.
        assert until(lambda: client.upload("a.zzz", LARGE, context=context).status_code == 201, 30)
        # without the object of a probe that is under way
        left = [
            key for key in azurite.keys(container, include="uncommittedblobs") if not key.startswith(".sluice-probe")
        ]
        assert len(left) == 2
        assert token not in service.log.read_text()
