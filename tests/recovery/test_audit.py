"""`sluice audit`: every kind of difference is found in both directions, on both setups, and only what may be mended is mended."""

import json
import time
from pathlib import Path

from tests.api.answers import data, page
from tests.api.places import Places
from tests.api.samples import TEXT
from tests.gate import Gate, Place, Service, running_service
from tests.recovery.auditing import audited


def _key_of(gate: Gate, file_id: str) -> str:
    (key,) = [key for key in gate.objects() if file_id in key]
    return key


def _path(place: Place, key: str) -> Path:
    return place.data_dir / "objects" / "objects" / key


def _remove(gate: Gate, key: str) -> None:
    place = gate.service.place
    if place.gateway is None:
        _path(place, key).unlink()
    else:
        place.gateway.client.delete_object(Bucket=place.bucket, Key=key)


def _write(gate: Gate, key: str, content: bytes, **marks: str) -> None:
    place = gate.service.place
    if place.gateway is None:
        _path(place, key).parent.mkdir(parents=True, exist_ok=True)
        _path(place, key).write_bytes(content)
    else:
        place.gateway.client.put_object(Bucket=place.bucket, Key=key, Body=content, Metadata=marks)


def _stray_key(gate: Gate) -> str:
    return f"{gate.tenant_id}/context/2026/01/file_{'0' * 26}.txt"


def test_files_as_they_are_stored_show_no_difference(gate: Gate) -> None:
    context = gate.context()
    stored = [gate.store(content=TEXT + str(number).encode(), context=context) for number in range(5)]
    gate.delete(f"/files/{stored[0]}")
    found = audited(gate.service, "--contents", "--strict")
    assert found.of(gate.tenant_id) == set()
    assert found.sums["rows"] >= 4
    assert found.sums["objects"] >= 5


def test_a_file_without_its_object_is_missing(gate: Gate) -> None:
    file_id = gate.store(context=gate.context())
    _remove(gate, _key_of(gate, file_id))
    found = audited(gate.service)
    assert found.code == 1
    assert found.of(gate.tenant_id) == {("missing", file_id)}


def test_an_object_of_another_size_or_with_other_bytes_is_changed(gate: Gate) -> None:
    context = gate.context()
    shorter, other = (gate.store(content=TEXT + letter, context=context) for letter in (b"a", b"b"))
    _write(gate, _key_of(gate, shorter), TEXT[:-3])
    _write(gate, _key_of(gate, other), TEXT + b"c")
    assert audited(gate.service).of(gate.tenant_id) == {("changed", shorter)}
    assert audited(gate.service, "--contents").of(gate.tenant_id) == {("changed", shorter), ("changed", other)}


def test_an_object_without_a_file_is_a_stray_and_deleted_only_when_asked(gate: Gate) -> None:
    gate.store(context=gate.context())
    key = _stray_key(gate)
    _write(gate, key, TEXT, **{"sluice-put": "0"})
    assert {("stray", key)} <= audited(gate.service).of(gate.tenant_id)
    assert key in gate.objects()
    mended = audited(gate.service, "--mend")
    assert [one for one in mended.findings if one["subject"] == key and one["mended"]]
    assert len(gate.objects()) == 1
    assert audited(gate.service).of(gate.tenant_id) == set()


def test_other_things_in_a_bucket_are_not_looked_at(gate: Gate) -> None:
    if gate.service.place.gateway is None:
        return
    gate.store(context=gate.context())
    _write(gate, f"{gate.tenant_id}/their own/report.pdf", TEXT)
    _write(gate, _stray_key(gate), TEXT)  # looks like ours, and bears no mark of a put of ours
    assert audited(gate.service, "--mend").of(gate.tenant_id) == set()
    assert len(gate.objects()) == 3


def test_a_count_of_bytes_that_does_not_add_up_is_told_when_strict(gate: Gate) -> None:
    context = gate.context()
    gate.store(context=context)
    gate.sql("UPDATE contexts SET storage_used_bytes = storage_used_bytes + 1 WHERE tenant_id = :t", t=gate.tenant_id)
    assert audited(gate.service).of(gate.tenant_id) == set()
    strict = audited(gate.service, "--strict")
    assert strict.code == 1
    assert [kind for kind, _ in strict.of(gate.tenant_id)] == ["miscounted"]
    gate.sql("UPDATE contexts SET storage_used_bytes = storage_used_bytes - 1 WHERE tenant_id = :t", t=gate.tenant_id)


def test_a_lease_that_nobody_settled_is_told_when_strict(places: Places) -> None:
    with running_service(places.fresh("sqlite-local"), WORKER_INSIDE="false") as service:
        gate = service.new_gate()
        gate.store(context=gate.context())
        gate.sql("UPDATE files SET state = 'pending', lease_until = created_at")
        assert [one["kind"] for one in audited(service, "--strict").findings] == ["unsettled"]


def test_an_interrupted_audit_goes_on_where_it_was(places: Places) -> None:
    with running_service(places.fresh("sqlite-local")) as service:
        gate = service.new_gate()
        context = gate.context()
        stored = [gate.store(context=context) for _ in range(4)]
        bookmark = service.place.data_dir / "audit-position.json"
        bookmark.write_text(json.dumps({"part": "rows", "store": "", "after": stored[1], "rows": 2, "objects": 0}))
        for file_id in stored:
            _remove(gate, _key_of(gate, file_id))
        found = audited(service, "--resume")
        assert found.of(gate.tenant_id) == {("missing", stored[2]), ("missing", stored[3])}
        assert found.sums["rows"] == 4
        assert not bookmark.exists()
        assert "was interrupted" in audited(service, "--resume").complaint


def test_a_bucket_that_cannot_be_reached_hides_no_other(gate: Gate) -> None:
    if gate.service.place.gateway is None:
        return
    bad = gate.bucket(name="soon gone")
    gate.sql("UPDATE storage_configs SET default_bucket = 'no-such-bucket' WHERE config_id = :id", id=bad["config_id"])
    file_id = gate.store(context=gate.context())
    _remove(gate, _key_of(gate, file_id))
    found = audited(gate.service)
    assert {(one["kind"], one["store"]) for one in found.findings if one["store"] == bad["config_id"]} == {
        ("unreachable", bad["config_id"])
    }
    assert ("missing", file_id) in found.of(gate.tenant_id)
    gate.sql("DELETE FROM storage_configs WHERE config_id = :id", id=bad["config_id"])


def test_uploads_and_deletions_under_way_are_no_differences(places: Places, setup_name: str) -> None:
    """Each look sees rows and objects come and go: here files are purged as soon as they are deleted."""
    with running_service(places.fresh(setup_name), PURGE_AFTER_DAYS="0") as service:
        _look_on(service)


def _look_on(service: Service) -> None:
    gate = service.new_gate().with_store()
    context = gate.context()
    deadline = time.monotonic() + 3
    seen: set[tuple[str, str]] = set()
    while time.monotonic() < deadline:
        stored = [gate.store(context=context) for _ in range(3)]
        for file_id in stored:
            data(gate.delete(f"/files/{file_id}"))
        seen |= audited(service).of(gate.tenant_id)
    assert seen == set()


def test_a_total_that_is_wrong_is_told_when_strict_and_counted_anew_when_asked(gate: Gate) -> None:
    gate.store(context=gate.context())
    gate.sql(
        "INSERT INTO count_deltas (tenant_id, list, facet_1, facet_2, change) VALUES (:t, 'files', 'a', 'b', 2)", t=gate.tenant_id
    )
    assert page(gate.get("/files"))[1]["total"] == 3
    assert audited(gate.service, "--strict").of(gate.tenant_id) == {("miscounted", "files")}
    (mended,) = [one for one in audited(gate.service, "--strict", "--mend").findings if one["tenant_id"] == gate.tenant_id]
    assert mended["mended"]
    assert audited(gate.service, "--strict").of(gate.tenant_id) == set()
    assert page(gate.get("/files"))[1]["total"] == 1
