"""Search among stored files by their name, bytes, type, moment, size, state and metadata."""

import hashlib
from typing import Any

import pytest

from tests.api.responses import assert_validation_error, page
from tests.api.samples import TEXT, noise, picture
from tests.rows import each_row
from tests.service import ApiClient, Service

pytestmark = pytest.mark.engine


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


@each_row("path", ["/files", "/contexts"])
def test_unknown_parameters_are_ignored_and_named_in_a_warning(shared_client: ApiClient, path: str) -> None:
    response = shared_client.get(path, **{"colour": "red", "page_size": 1, 'a"b\r\n': "x"})
    page(response)
    assert response.headers["Warning"] == '299 sluice "Unknown query parameters were ignored: a?b??, colour"'
    assert "Warning" not in shared_client.get(path, page_size=1).headers


@each_row("path", ["/reports", "/audit", "/upload-tokens", "/events", "/jobs", "/quarantine", "/usage"])
def test_lists_beyond_the_contract_refuse_unknown_parameters(shared_client: ApiClient, path: str) -> None:
    assert_validation_error(shared_client.get(path, colour="red"), "colour")
    assert shared_client.get(path).status_code == 200


@each_row("name, value", [
    *(("sha256", "12"), ("min_size", "-1"), ("min_size", "1.0"), ("created_after", "1700000000")),
    *(("created_before", "2026-01-01"), ("status", "deleted"), ("sort", "name"), ("filename", "")),
    *(("metadata.", "x"), (f"metadata.{'x' * 101}", "x"), ("metadata.a", "x" * 201)),
])  # fmt: skip
def test_a_filter_that_cannot_be_read_is_refused(shared_client: ApiClient, name: str, value: str) -> None:
    field = "metadata." if name.startswith("metadata") else name
    assert_validation_error(shared_client.get("/files", **{name: value}), field)
    too_far = shared_client.get("/files", filename="a", page=101, page_size=100)
    assert_validation_error(too_far, "page")
