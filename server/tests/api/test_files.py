"""Stored files: list, search, metadata, deletion. Download links are in `test_downloads`."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.responses import assert_not_found, assert_validation_error, data, is_now, page, without_time
from tests.api.samples import TEXT, noise, picture
from tests.rows import each_row
from tests.scanning.waiting import until
from tests.service import ApiClient, Service

UNKNOWN_IDS = ["file_00000000000000000000000000", "nonsense", "file_", "%00", "file_01%2f..", "x" * 4000, "🌊"]


def _names(client: ApiClient, **query: object) -> list[str]:
    return sorted(item["original_filename"] for item in page(client.get("/files", **query))[0])


def test_listed_and_read_file_have_exactly_the_fields_of_the_interface(client: ApiClient, context: str) -> None:
    key = client.create_key("upload", name="Scanner 3")
    metadata = {"a": [1, {"b": None}]}
    file_id = client.with_credential(key).store("a.txt", context=context, metadata=metadata)
    (item,), pagination = page(client.get("/files"))
    shown = {
        "file_id": file_id,
        "original_filename": "a.txt",
        "content_type": "text/plain",
        "size_bytes": len(TEXT),
        "context_key": context,
        "metadata": metadata,
        "download_count": 0,
        "last_downloaded_at": None,
    }
    assert is_now(item.pop("created_at"))
    assert item == shown | {"uploaded_by": key.api_key_id, "uploaded_by_name": "Scanner 3"}
    assert pagination == {"page": 1, "page_size": 20, "total": 1, "total_pages": 1}
    checksum = f"sha256:{hashlib.sha256(TEXT).hexdigest()}"
    assert data(client.get(f"/files/{file_id}/metadata")) == shown | {"checksum": checksum}


@each_row("claims, name", [
    ({"name": "Ada Byron", "email": "ada@example.org"}, "Ada Byron"),
    *(({"email": "ada@example.org"}, "ada@example.org"), ({}, "user-7-0")),
])  # fmt: skip
def test_file_of_a_token_names_the_user(client: ApiClient, context: str, claims: dict[str, str], name: str) -> None:
    subject = f"user-7-{len(claims)}"
    user = client.with_credential(client.token(sub=subject, scope="upload", **claims))
    file_id = user.store(context=context)
    item = next(item for item in page(client.get("/files"))[0] if item["file_id"] == file_id)
    assert item["uploaded_by_name"] == name
    assert subject in item["uploaded_by"]
    assert _names(client, uploaded_by=item["uploaded_by"]) == ["note.txt"]


@pytest.mark.engine
def test_list_of_files_is_filtered_by_context_and_uploader(client: ApiClient, context: str) -> None:
    first, second, other = client.create_key("upload"), client.create_key("upload"), client.create_context()
    client.with_credential(first).store("a.txt", context=context)
    client.with_credential(second).store("b.txt", context=other)
    assert _names(client) == ["a.txt", "b.txt"]
    assert _names(client, context=context) == ["a.txt"]
    assert _names(client, context_key=other) == ["b.txt"]
    assert _names(client, uploaded_by=first.api_key_id) == ["a.txt"]
    assert _names(client, uploaded_by=second.api_key_id, context=other) == ["b.txt"]
    assert _names(client, uploaded_by=second.api_key_id, context=context) == []


@pytest.mark.engine
def test_filter_without_matches_finds_nothing_and_one_that_cannot_be_read_is_refused(shared_client: ApiClient) -> None:
    for name in ["context", "context_key", "uploaded_by"]:
        for value in ("unknown", "%", "' OR 1=1 --", "🌊", "x" * 3000):
            items, pagination = page(shared_client.get("/files", **{name: value}))
            assert (items, pagination["total"], pagination["total_pages"]) == ([], 0, 0)
        assert shared_client.get("/files", **{name: "a\x00b"}).status_code in {200, 422}
    for name, value in [
        *(("sha256", "12"), ("min_size", "-1"), ("min_size", "1.0"), ("created_after", "1700000000")),
        *(("created_before", "2026-01-01"), ("status", "deleted"), ("sort", "name"), ("filename", "")),
        *(("metadata.", "x"), (f"metadata.{'x' * 101}", "x"), ("metadata.a", "x" * 201)),
    ]:
        field = "metadata." if name.startswith("metadata") else name
        assert_validation_error(shared_client.get("/files", **{name: value}), field)
        too_far = shared_client.get("/files", filename="a", page=101, page_size=100)
        assert_validation_error(too_far, "page")


@pytest.mark.engine
def test_paging_returns_every_file_once_newest_first(client: ApiClient, context: str) -> None:
    stored = [client.store(f"{number}.txt", context=context) for number in range(5)]
    pages = [page(client.get("/files", page=number, page_size=2)) for number in (1, 2, 3, 4)]
    assert [len(items) for items, _ in pages] == [2, 2, 1, 0]
    assert [item["file_id"] for items, _ in pages for item in items] == stored[::-1]
    assert {pagination["total_pages"] for _, pagination in pages} == {3}


def test_deleted_file_is_absent_from_every_route_as_an_unknown_one_and_others_are_kept(
    client: ApiClient, context: str, shared_client: ApiClient
) -> None:
    kept, gone = client.store("a.txt", context=context), client.store("b.txt", context=context)
    assert data(client.delete(f"/files/{gone}")) == {"file_id": gone, "deleted": True}
    assert_not_found(client.get(f"/files/{gone}"))
    assert_not_found(client.get(f"/files/{gone}/metadata"))
    assert_not_found(client.delete(f"/files/{gone}"))
    unknown = client.get(f"/files/{gone[:-4]}0000")
    assert without_time(client.get(f"/files/{gone}")) == without_time(unknown)
    assert _names(client) == ["a.txt"]
    assert page(client.get("/files"))[1]["total"] == 1
    assert client.used_bytes(context) == len(TEXT)
    data(client.get(f"/files/{kept}"))
    assert len(client.object_keys()) == 2, "the object is purged later"
    for file_id in UNKNOWN_IDS:
        assert_not_found(shared_client.get(f"/files/{file_id}"))
        assert_not_found(shared_client.get(f"/files/{file_id}/metadata"))
        assert_not_found(shared_client.delete(f"/files/{file_id}"))


@pytest.mark.engine
def test_worker_purges_the_objects_of_deleted_files_alone(limited_service: Service) -> None:
    client = limited_service.new_client().with_store()
    context = client.create_context()
    kept, gone = client.store("a.zzz", noise(1000), context=context), client.store(context=context)
    assert len(client.object_keys()) == 2
    client.delete(f"/files/{gone}")
    until(lambda: len(client.object_keys()) == 1, 15)
    assert [kept in key for key in client.object_keys()] == [True]
    data(client.get(f"/files/{kept}"))


def test_files_of_a_test_key_are_deleted_after_a_day(client: ApiClient, context: str) -> None:
    kept = client.store("kept.txt", context=context)
    gone = client.with_credential(client.create_test_key("upload")).store("gone.txt", context=context)
    data(client.get(f"/files/{gone}/metadata"))
    then = datetime.now(UTC) - timedelta(hours=25)
    past = "UPDATE files SET created_at = :then, due_at = :then WHERE file_id = :file"
    client.execute_sql(past, then=then, file=gone)
    until(lambda: client.get(f"/files/{gone}/metadata").status_code != 200, 15)
    assert_not_found(client.get(f"/files/{gone}/metadata"))
    data(client.get(f"/files/{kept}/metadata"))
    assert client.used_bytes(context) == len(TEXT)


def test_download_is_counted_in_list_and_metadata_but_no_refused_link(client: ApiClient, context: str) -> None:
    path = f"/files/{client.store(context=context)}"
    too_much, no_number = ("59", "3601", "0", "-1", "1" * 30), ("x", "1.5", "", "300s", "30_0", "+300", "300.0")
    for seconds in (*too_much, *no_number, "0300", " 300"):
        assert_validation_error(client.get(path, expires_in=seconds), "expires_in")
    assert data(client.get(f"{path}/metadata"))["download_count"] == 0
    for _ in range(3):
        client.get(path)
    view = data(client.get(f"{path}/metadata"))
    (item,), _ = page(client.get("/files"))
    assert (view["download_count"], item["download_count"]) == (3, 3)
    assert view["last_downloaded_at"] == item["last_downloaded_at"]
    assert is_now(view["last_downloaded_at"])


@pytest.fixture(scope="module")
def searched(service: Service) -> ApiClient:
    """A client of a tenant with three files, the oldest of which is a picture."""
    client = service.new_client()
    for context in ("photos", "claims"):
        client.create_context(context_key=context, reject_corrupt_files=False)
    client.store("Cat.PNG", picture(), context="photos", metadata={"claim": "C-7", "page": 1, "draft": True})
    client.store("letter.txt", TEXT, context="claims", metadata={"claim": "C-7", "page": 2, "note": "50% off_"})
    client.store("large.bin", noise(5000), context="claims")
    return client


SUM = hashlib.sha256(TEXT).hexdigest()
FOUND: list[tuple[dict[str, Any], list[str]]] = [
    ({"filename": "cat"}, ["Cat.PNG"]),
    ({"filename": "%"}, []),
    ({"sha256": SUM}, ["letter.txt"]),
    ({"sha256": f"sha256:{SUM.upper()}"}, ["letter.txt"]),
    ({"content_type": "image/png"}, ["Cat.PNG"]),
    ({"min_size": 5000}, ["large.bin"]),
    ({"metadata.claim": "C-7"}, ["letter.txt", "Cat.PNG"]),
    ({"metadata.claim": "C-7", "metadata.page": "2"}, ["letter.txt"]),
    ({"metadata.claim": "C-7", "context": "photos"}, ["Cat.PNG"]),
    ({"metadata.draft": "true"}, ["Cat.PNG"]),
    ({"metadata.note": "50% off_"}, ["letter.txt"]),
    ({"metadata.nothing": "x"}, []),
    ({"status": "quarantined"}, []),
    ({"status": "stored", "sort": "created_at"}, ["Cat.PNG", "letter.txt", "large.bin"]),
    ({"sort": "-size_bytes", "context": "claims"}, ["large.bin", "letter.txt"]),
    ({"created_after": "2000-01-01T00:00:00Z", "filename": "l"}, ["large.bin", "letter.txt"]),
    ({"created_before": "2000-01-01T00:00:00Z"}, []),
    ({"created_after": "2100-01-01T00:00:00Z"}, []),
]


@pytest.mark.engine
@each_row("asked, found", FOUND)
def test_search_finds_what_meets_all_filters(searched: ApiClient, asked: dict[str, Any], found: list[str]) -> None:
    response = searched.get("/files", **asked)
    items, pagination = page(response)
    assert [item["original_filename"] for item in items] == found
    assert pagination["total"] == len(found)
    assert "Warning" not in response.headers


def test_files_that_are_deleted_or_of_another_tenant_are_not_found(searched: ApiClient, client: ApiClient) -> None:
    file_id = client.store(context=client.create_context(), metadata={"claim": "C-9"})
    assert len(page(client.get("/files", **{"metadata.claim": "C-9"}))[0]) == 1
    client.delete(f"/files/{file_id}")
    for asked in ({"metadata.claim": "C-9"}, *(asked for asked, _found in FOUND)):
        assert page(client.get("/files", **asked))[0] == []


def test_unknown_parameters_are_named_in_a_warning_or_refused_beyond_the_contract(shared_client: ApiClient) -> None:
    for path in ("/files", "/contexts"):
        response = shared_client.get(path, **{"colour": "red", "page_size": 1, 'a"b\r\n': "x"})
        page(response)
        assert response.headers["Warning"] == '299 sluice "Unknown query parameters were ignored: a?b??, colour"'
        assert "Warning" not in shared_client.get(path, page_size=1).headers
    for path in ("/reports", "/audit", "/upload-tokens", "/events", "/jobs", "/quarantine", "/usage"):
        assert_validation_error(shared_client.get(path, colour="red"), "colour")
        assert shared_client.get(path).status_code == 200
