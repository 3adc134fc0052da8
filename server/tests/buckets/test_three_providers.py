"""A tenant with buckets of three providers, whose default moves from one to the other while files are uploaded."""

import itertools
import os
from dataclasses import replace
from functools import partial

from tests.api.responses import data
from tests.deployments import Deployments
from tests.load import Load, assert_downloadable, uploading_clients
from tests.recovery.audit_command import run_audit
from tests.scanning.waiting import until
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs, service_account_key
from tests.servers.radosgw import RadosGateway
from tests.service import running_service

MOVES = int(os.environ.get("SLUICE_TEST_MOVES", "6"))


def _has(load: Load, files: int) -> bool:
    return len(load.stored) >= files


def test_default_moves_between_three_providers_while_files_are_uploaded(
    deployments: Deployments, gateway: RadosGateway, azurite: Azurite, gcs: FakeGcs
) -> None:
    names = [gateway.create_bucket(f"moves-{os.urandom(8).hex()}"), azurite.fresh_container(), gcs.fresh_bucket()]
    key_pair = {"access_key_id": gateway.access_key, "secret_access_key": gateway.secret_key}
    of_azure = {"provider": "azure_blob", "account": azurite.account, "account_key": azurite.key}
    of_google = {"provider": "gcs", "service_account_key": service_account_key()}
    settings = [key_pair | {"region": gateway.region}, of_azure, of_google]
    endpoints = [gateway.endpoint, azurite.endpoint, gcs.endpoint]
    hosts = ",".join(endpoint.removeprefix("http://") for endpoint in endpoints)
    deployment = deployments.fresh("sqlite-local")
    # Of the deployment, so that the audit has them too.
    deployment = replace(deployment, settings={**deployment.settings, "BUCKET_ENDPOINT_HOSTS": hosts})
    with running_service(deployment) as service:
        client = service.new_client()
        ids = list[str]()
        for name, own, endpoint in zip(names, settings, endpoints, strict=True):
            body = {"name": name, "default_bucket": name, "endpoint_url": endpoint, **own}
            ids.append(data(client.post(client.buckets, body), 201)["config_id"])
        context = client.create_context(
            storage_quota_mb=1000, upload_rate_limit={"max_uploads": 10_000, "window_seconds": 1}
        )
        with uploading_clients(client, context, clients=3) as load:
            for config_id in itertools.islice(itertools.cycle((*ids[1:], ids[0])), MOVES):
                data(client.post(f"{client.buckets}/{config_id}/set-default"))
                assert until(partial(_has, load, len(load.stored) + 6), 60), load.unexpected
        assert (load.unexpected, load.broken_connections, set(load.statuses)) == ([], 0, {201})
        stored = [gateway.keys(names[0]), azurite.keys(names[1]), gcs.keys(names[2])]
        assert sum(map(len, stored)) == len(load.stored)
        assert all(stored)
        assert client.used_bytes(context) == len(load.stored) * 20_000
        assert_downloadable(client, load)
        audit = run_audit(service, "--strict")
        assert audit.findings == [], audit.complaint
