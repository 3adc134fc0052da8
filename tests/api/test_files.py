"""Stored files: list, filter, metadata, deletion. Download links are in `test_downloads`."""

import hashlib
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.api.answers import data, invalid, is_now, not_found, page, without_time
from tests.api.samples import TEXT, noise
from tests.gate import Gate, Service

LIST_FIELDS = {
    "file_id",
    "original_filename",
    "content_type",
    "size_bytes",
    "context_key",
    "uploaded_by",
    "uploaded_by_name",
    "metadata",
    "download_count",
    "last_downloaded_at",
    "created_at",
}
UNKNOWN_IDS = ["file_00000000000000000000000000", "nonsense", "file_", "%00", "file_01%2f..", "x" * 4000, "🌊"]


@pytest.fixture
def context(gate: Gate) -> str:
    return gate.context()


def _names(gate: Gate, **query: object) -> list[str]:
    return sorted(item["original_filename"] for item in page(gate.get("/files", **query))[0])


def test_a_listed_file_holds_what_the_interface_lists(gate: Gate, context: str) -> None:
    key = gate.key("upload", name="Scanner 3")
    file_id = gate.as_(key).store("a.txt", context=context, metadata={"a": 1})
    (item,), pagination = page(gate.get("/files"))
    assert is_now(item.pop("created_at"))
    assert item == {
        "file_id": file_id,
        "original_filename": "a.txt",
        "content_type": "text/plain",
        "size_bytes": len(TEXT),
        "context_key": context,
        "uploaded_by": key.api_key_id,
        "uploaded_by_name": "Scanner 3",
        "metadata": {"a": 1},
        "download_count": 0,
        "last_downloaded_at": None,
    }
    assert pagination == {"page": 1, "page_size": 20, "total": 1, "total_pages": 1}


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"name": "Ada Byron", "email": "ada@example.org"}, "Ada Byron"),
        ({"email": "ada@example.org"}, "ada@example.org"),
        ({}, "user-7"),
    ],
)
def test_a_users_file_names_the_user(gate: Gate, context: str, claims: dict[str, str], name: str) -> None:
    user = gate.as_(gate.token(sub="user-7", scope="upload", **claims))
    user.store(context=context)
    (item,), _ = page(gate.get("/files"))
    assert item["uploaded_by_name"] == name
    assert "user-7" in item["uploaded_by"]
    assert _names(gate, uploaded_by=item["uploaded_by"]) == ["note.txt"]


def test_files_are_filtered_by_context(gate: Gate, context: str) -> None:
    other = gate.context()
    gate.store("a.txt", context=context)
    gate.store("b.txt", context=other)
    assert _names(gate) == ["a.txt", "b.txt"]
    assert _names(gate, context=context) == ["a.txt"]
    assert _names(gate, context_key=other) == ["b.txt"]


def test_files_are_filtered_by_uploader(gate: Gate, context: str) -> None:
    first, second = gate.key("upload"), gate.key("upload")
    gate.as_(first).store("a.txt", context=context)
    gate.as_(second).store("b.txt", context=context)
    assert _names(gate, uploaded_by=first.api_key_id) == ["a.txt"]
    assert _names(gate, uploaded_by=second.api_key_id, context=context) == ["b.txt"]
    assert _names(gate, uploaded_by=second.api_key_id, context=gate.context()) == []


@pytest.mark.parametrize("name", ["context", "context_key", "uploaded_by"])
@pytest.mark.parametrize("value", ["unknown", "%", "' OR 1=1 --", "🌊", "x" * 3000])
def test_a_filter_that_fits_nothing_answers_an_empty_list(lobby: Gate, name: str, value: str) -> None:
    items, pagination = page(lobby.get("/files", **{name: value}))
    assert (items, pagination["total"], pagination["total_pages"]) == ([], 0, 0)


@pytest.mark.parametrize("name", ["context", "uploaded_by"])
def test_a_filter_with_a_zero_character_is_no_fault_of_the_service(lobby: Gate, name: str) -> None:
    assert lobby.get("/files", **{name: "a\x00b"}).status_code in {200, 422}


def test_pages_hold_every_file_once_newest_first(gate: Gate, context: str) -> None:
    stored = [gate.store(f"{number}.txt", context=context) for number in range(5)]
    pages = [page(gate.get("/files", page=number, page_size=2)) for number in (1, 2, 3, 4)]
    assert [len(items) for items, _ in pages] == [2, 2, 1, 0]
    assert [item["file_id"] for items, _ in pages for item in items] == stored[::-1]
    assert {pagination["total_pages"] for _, pagination in pages} == {3}


def test_a_list_shows_no_other_tenants_files(gate: Gate, context: str) -> None:
    gate.store(context=context)
    stranger = gate.stranger()
    assert _names(stranger) == []
    assert _names(stranger, context=context) == []


def test_the_metadata_view_holds_what_the_interface_lists(gate: Gate, context: str) -> None:
    file_id = gate.store("a.txt", context=context, metadata={"a": [1, {"b": None}]})
    assert data(gate.get(f"/files/{file_id}/metadata")) == {
        "file_id": file_id,
        "original_filename": "a.txt",
        "content_type": "text/plain",
        "size_bytes": len(TEXT),
        "context_key": context,
        "checksum": f"sha256:{hashlib.sha256(TEXT).hexdigest()}",
        "metadata": {"a": [1, {"b": None}]},
        "download_count": 0,
        "last_downloaded_at": None,
    }


@pytest.mark.parametrize("file_id", UNKNOWN_IDS, ids=lambda text: text[:12])
def test_an_unknown_file_is_not_found(lobby: Gate, file_id: str) -> None:
    not_found(lobby.get(f"/files/{file_id}"))
    not_found(lobby.get(f"/files/{file_id}/metadata"))
    not_found(lobby.delete(f"/files/{file_id}"))


def test_another_tenants_file_answers_as_an_unknown_one(gate: Gate, context: str, lobby: Gate) -> None:
    file_id = gate.store(context=context)
    unknown = file_id[:-4] + "0000"
    for method, tail in (("GET", ""), ("GET", "/metadata"), ("DELETE", "")):
        foreign = lobby.ask(method, f"/files/{file_id}{tail}")
        assert without_time(foreign) == without_time(lobby.ask(method, f"/files/{unknown}{tail}"))
    assert data(gate.get(f"/files/{file_id}/metadata"))["download_count"] == 0


def test_a_deletion_answers_the_id(gate: Gate, context: str) -> None:
    file_id = gate.store(context=context)
    assert data(gate.delete(f"/files/{file_id}")) == {"file_id": file_id, "deleted": True}


def test_a_deleted_file_is_gone_everywhere(gate: Gate, context: str) -> None:
    file_id = gate.store(context=context)
    gate.delete(f"/files/{file_id}")
    not_found(gate.get(f"/files/{file_id}"))
    not_found(gate.get(f"/files/{file_id}/metadata"))
    not_found(gate.delete(f"/files/{file_id}"))
    assert _names(gate) == []
    assert page(gate.get("/files"))[1]["total"] == 0


def test_a_deleted_file_answers_as_an_unknown_one(gate: Gate, context: str) -> None:
    file_id = gate.store(context=context)
    gate.delete(f"/files/{file_id}")
    unknown = file_id[:-4] + "0000"
    assert without_time(gate.get(f"/files/{file_id}")) == without_time(gate.get(f"/files/{unknown}"))


def test_a_deletion_takes_nothing_else_along(gate: Gate, context: str) -> None:
    kept, gone = gate.store("a.txt", context=context), gate.store("b.txt", context=context)
    gate.delete(f"/files/{gone}")
    assert _names(gate) == ["a.txt"]
    assert gate.used(context) == len(TEXT)
    data(gate.get(f"/files/{kept}"))


def test_the_object_of_a_deleted_file_stays_for_a_while(gate: Gate, context: str) -> None:
    gate.delete(f"/files/{gate.store(context=context)}")
    assert len(gate.objects()) == 1


def _until_no_objects(gate: Gate) -> bool:
    deadline = time.monotonic() + 15
    while gate.objects() and time.monotonic() < deadline:
        time.sleep(0.05)  # the worker is another process: all one can do is look again
    return not gate.objects()


def test_the_worker_purges_the_object_when_its_time_has_come(hasty: Service) -> None:
    gate = hasty.new_gate().with_store()
    context = gate.context()
    file_id = gate.store(context=context)
    assert len(gate.objects()) == 1
    gate.delete(f"/files/{file_id}")
    assert _until_no_objects(gate)


def test_the_worker_purges_nothing_that_lives(hasty: Service) -> None:
    gate = hasty.new_gate().with_store()
    context = gate.context()
    kept, gone = gate.store("a.zzz", noise(1000), context=context), gate.store(context=context)
    gate.delete(f"/files/{gone}")
    deadline = time.monotonic() + 15
    while len(gate.objects()) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)  # the worker is another process: all one can do is look again
    assert [kept in key for key in gate.objects()] == [True]
    data(gate.get(f"/files/{kept}"))


def test_files_of_a_test_key_are_gone_after_a_day(gate: Gate, context: str) -> None:
    kept = gate.store("kept.txt", context=context)
    gone = gate.as_(gate.test_key("upload")).store("gone.txt", context=context)
    data(gate.get(f"/files/{gone}/metadata"))
    gate.sql(
        "UPDATE files SET created_at = :then, due_at = :then WHERE file_id = :file",
        then=_stored_form(gate, datetime.now(UTC) - timedelta(hours=25)),
        file=gone,
    )
    deadline = time.monotonic() + 15
    while gate.get(f"/files/{gone}/metadata").status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.05)  # the worker is another process: all one can do is look again
    not_found(gate.get(f"/files/{gone}/metadata"))
    data(gate.get(f"/files/{kept}/metadata"))
    assert gate.used(context) == len(TEXT)


def _stored_form(gate: Gate, then: datetime) -> object:
    """SQLite keeps moments as text without a zone."""
    if gate.service.place.database_url.startswith("sqlite"):
        return then.replace(tzinfo=None).isoformat(" ")
    return then


def test_a_download_is_counted_in_list_and_view(gate: Gate, context: str) -> None:
    file_id = gate.store(context=context)
    for _ in range(3):
        gate.get(f"/files/{file_id}")
    view = data(gate.get(f"/files/{file_id}/metadata"))
    (item,), _ = page(gate.get("/files"))
    assert (view["download_count"], item["download_count"]) == (3, 3)
    assert view["last_downloaded_at"] == item["last_downloaded_at"]
    assert is_now(view["last_downloaded_at"])


@pytest.mark.parametrize(
    "seconds", ["59", "3601", "0", "-1", "x", "1.5", "", "300s", "1" * 30, "30_0", "+300", "300.0", "0300", " 300"]
)
def test_an_expiry_out_of_bounds_is_refused_and_not_counted(gate: Gate, context: str, seconds: str) -> None:
    file_id = gate.store(context=context)
    invalid(gate.get(f"/files/{file_id}", expires_in=seconds), "expires_in")
    assert data(gate.get(f"/files/{file_id}/metadata"))["download_count"] == 0
