"""`sluice migrate-bucket`: files are in the other bucket, whole, and whoever runs it twice loses nothing."""

import hashlib

from tests.api.answers import data
from tests.api.samples import TEXT, noise
from tests.cli.commands import Ended, Sluice
from tests.gate import Gate
from tests.recovery.auditing import audited
from tests.recovery.test_backup import downloads
from tests.servers.radosgw import RadosGateway


def migrate(gate: Gate, source: str, target: str) -> Ended:
    place = gate.service.place
    settings = {**place.settings, "DATA_DIR": str(place.data_dir), "DATABASE_URL": place.database_url}
    return Sluice(place.folder, settings)("migrate-bucket", source, target, "--tenant", gate.tenant_id)


def test_files_move_whole_and_later_runs_have_nothing_to_do(s3: RadosGateway, newcomer: Gate) -> None:
    gate = newcomer
    old = gate.bucket(name="old")["config_id"]
    context = gate.context()
    contents = [noise(30_000, seed=1), noise(9_000_000, seed=2), TEXT]
    stored = {gate.store("a.zzz", one, context=context): hashlib.sha256(one).hexdigest() for one in contents}
    new = gate.bucket(name="new", default_bucket=s3.fresh_bucket(), base_path="moved/here")["config_id"]
    ended = migrate(gate, old, new)
    assert (ended.code, ended.out) == (0, "3 files moved, 0 deleted meanwhile, 0 failed.\n")
    assert downloads(gate, stored) == stored
    assert migrate(gate, old, new).out.startswith("0 files moved")
    # what is left in the old bucket is known as ours and without a file
    strays = {one["kind"] for one in audited(gate.service).findings if one["store"] == old}
    assert strays == {"stray"}
    audited(gate.service, "--mend")
    assert gate.objects() == set()
    assert downloads(gate, stored) == stored


def test_files_move_from_the_services_own_store_into_a_bucket(s3: RadosGateway, newcomer: Gate) -> None:
    gate = newcomer
    file_id = gate.store(context=gate.context())
    bucket = gate.bucket()["config_id"]
    assert migrate(gate, "platform", bucket).code == 0
    link = data(gate.get(f"/files/{file_id}"))["download_url"]
    assert link.startswith(s3.endpoint)
    assert downloads(gate, [file_id]) == {file_id: hashlib.sha256(TEXT).hexdigest()}


def test_a_file_without_its_object_stays_where_it_is_and_is_told(s3: RadosGateway, newcomer: Gate) -> None:
    gate = newcomer
    old = gate.bucket(name="old")["config_id"]
    context = gate.context()
    lost, kept = gate.store(context=context), gate.store(content=TEXT + b"2", context=context)
    (key,) = [key for key in gate.objects() if lost in key]
    s3.client.delete_object(Bucket=gate.service.place.bucket, Key=key)
    new = gate.bucket(name="new", base_path=f"{gate.tenant_id}/new")["config_id"]
    ended = migrate(gate, old, new)
    assert ended.code == 1
    assert f"{lost}: there is no object" in ended.err
    assert kept not in ended.err


def test_an_unknown_bucket_or_the_same_one_is_refused(s3: RadosGateway, newcomer: Gate) -> None:
    bucket = newcomer.bucket()["config_id"]
    assert migrate(newcomer, bucket, bucket).code == 2
    assert migrate(newcomer, bucket, "bkt_nothing").code == 1
