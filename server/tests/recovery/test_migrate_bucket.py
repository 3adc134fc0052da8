"""`sluice migrate-bucket`: files arrive unchanged in the other bucket, and a second run loses nothing."""

import hashlib

from tests.api.responses import data
from tests.api.samples import TEXT, noise
from tests.cli.commands import CommandResult, Sluice
from tests.recovery.audit_command import run_audit
from tests.recovery.test_backup import download_digests
from tests.servers.radosgw import RadosGateway
from tests.service import ApiClient


def migrate(client: ApiClient, source: str, target: str) -> CommandResult:
    deployment = client.service.deployment
    settings = {**deployment.settings, "DATA_DIR": str(deployment.data_dir), "DATABASE_URL": deployment.database_url}
    return Sluice(deployment.folder, settings)("migrate-bucket", source, target, "--tenant", client.tenant_id)


def test_files_move_unchanged_and_later_runs_move_nothing(s3: RadosGateway, bare_client: ApiClient) -> None:
    client = bare_client
    old = client.add_bucket(name="old")["config_id"]
    context = client.create_context()
    contents = [noise(30_000, seed=1), noise(9_000_000, seed=2), TEXT]
    stored = {client.store("a.zzz", one, context=context): hashlib.sha256(one).hexdigest() for one in contents}
    new = client.add_bucket(name="new", default_bucket=s3.fresh_bucket(), base_path="moved/here")["config_id"]
    ended = migrate(client, old, new)
    assert (ended.code, ended.out) == (0, "3 files moved, 0 deleted meanwhile, 0 failed.\n")
    assert download_digests(client, stored) == stored
    assert migrate(client, old, new).out.startswith("0 files moved")
    # the objects left in the old bucket are reported as objects without a file
    strays = {one["kind"] for one in run_audit(client.service).findings if one["store"] == old}
    assert strays == {"stray"}
    run_audit(client.service, "--repair")
    assert client.object_keys() == set()
    assert download_digests(client, stored) == stored


def test_files_move_from_the_platform_store_into_a_bucket(s3: RadosGateway, bare_client: ApiClient) -> None:
    client = bare_client
    file_id = client.store(context=client.create_context())
    bucket = client.add_bucket()["config_id"]
    assert migrate(client, "platform", bucket).code == 0
    link = data(client.get(f"/files/{file_id}"))["download_url"]
    assert link.startswith(s3.endpoint)
    assert download_digests(client, [file_id]) == {file_id: hashlib.sha256(TEXT).hexdigest()}


def test_a_file_without_its_object_is_reported_and_not_moved(s3: RadosGateway, bare_client: ApiClient) -> None:
    client = bare_client
    old = client.add_bucket(name="old")["config_id"]
    context = client.create_context()
    lost, kept = client.store(context=context), client.store(content=TEXT + b"2", context=context)
    (key,) = [key for key in client.object_keys() if lost in key]
    s3.client.delete_object(Bucket=client.service.deployment.bucket, Key=key)
    new = client.add_bucket(name="new", base_path=f"{client.tenant_id}/new")["config_id"]
    ended = migrate(client, old, new)
    assert (ended.code, f"{lost}: there is no object" in ended.err, kept in ended.err) == (1, True, False)


def test_migrate_bucket_refuses_an_unknown_or_the_same_bucket(s3: RadosGateway, bare_client: ApiClient) -> None:
    bucket = bare_client.add_bucket()["config_id"]
    assert migrate(bare_client, bucket, bucket).code == 2
    assert migrate(bare_client, bucket, "bkt_nothing").code == 5
