"""Uploads: the form, the response, file names and metadata. What the rules reject is in `test_upload_rules`."""

import hashlib
import json
import unicodedata
from typing import Any

import pytest

from tests.api import forms
from tests.api.forms import Part, field, file
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page, without_time
from tests.api.samples import TEXT, noise, picture
from tests.rows import each_row
from tests.service import ApiClient


@pytest.fixture
def context(client: ApiClient) -> str:
    return client.create_context()


@pytest.fixture(scope="module")
def shared_context(shared_client: ApiClient) -> str:
    """One context for all uploads that are refused."""
    return shared_client.create_context()


def test_upload_response_has_exactly_the_fields_of_the_interface(client: ApiClient, context: str) -> None:
    response = client.upload("Hopper.PNG", picture(), context=context, metadata={"invoice": 7})
    stored = data(response, 201)
    assert response.json()["message"] == "File uploaded"
    assert stored.pop("file_id").startswith("file_")
    assert stored.pop("report_id") == response.headers["sluice-report-id"]
    assert stored == {
        "original_filename": "Hopper.PNG",
        "content_type": "image/png",
        "size_bytes": len(picture()),
        "context_key": context,
        "metadata": {"invoice": 7},
    }


def test_upload_is_stored_and_charged_to_the_quota(client: ApiClient, context: str) -> None:
    client.store(context=context)
    assert len(client.object_keys()) == 1
    assert client.used_bytes(context) == len(TEXT)


FIELDS = [file("note.txt", TEXT), field("context", "{context}"), field("metadata", '{"a": 1}')]
ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 1), (1, 0)]


def _with_context(context: str, parts: list[Part]) -> list[Part]:
    return [
        Part(one.name, one.content.replace(b"{context}", context.encode()), one.filename, one.content_type)
        for one in parts
    ]


@each_row("order", ORDERS)
def test_form_fields_may_come_in_any_order(client: ApiClient, context: str, order: tuple[int, ...]) -> None:
    stored = data(client.upload_parts(_with_context(context, [FIELDS[number] for number in order])), 201)
    assert stored["size_bytes"] == len(TEXT)
    assert stored["metadata"] == ({"a": 1} if 2 in order else {})


def test_unknown_form_fields_are_ignored(client: ApiClient, context: str) -> None:
    parts = [field("flavour", "salt"), file("note.txt", TEXT), field("context", context), field("", "nameless")]
    data(client.upload_parts(parts), 201)


@each_row("missing", ["file", "context"])
def test_missing_form_field_is_named(shared_client: ApiClient, shared_context: str, missing: str) -> None:
    parts = [part for part in (file("note.txt", TEXT), field("context", shared_context)) if part.name != missing]
    response = shared_client.upload_parts(parts)
    assert_validation_error(response, missing)
    assert response.json()["errors"] == [f"{missing}: field required"]


def test_all_missing_form_fields_are_named(shared_client: ApiClient) -> None:
    assert_validation_error(shared_client.upload_parts([field("metadata", "{}")]), "file", "context")


def test_file_field_without_a_file_name_is_refused(shared_client: ApiClient, shared_context: str) -> None:
    response = shared_client.upload_parts([field("file", "words"), field("context", shared_context)])
    assert response.status_code in {400, 422}


@each_row("twice", ["file", "context", "metadata"])
@pytest.mark.asvs("15.3.7")
def test_duplicate_form_field_is_refused(shared_client: ApiClient, shared_context: str, twice: str) -> None:
    parts = [file("note.txt", TEXT), field("context", shared_context), field("metadata", "{}")]
    again = next(part for part in parts if part.name == twice)
    response = shared_client.upload_parts([*parts, again])
    assert response.status_code in {400, 422}, response.text
    assert page(shared_client.get("/files", context=shared_context))[0] == []


@each_row("key", ["unknown", "UPPER", "", "a" * 3000, "a\x00b", "../x"])
def test_returns_404_for_an_unknown_context(shared_client: ApiClient, key: str) -> None:
    assert_not_found(shared_client.upload(context=key))


def test_another_tenants_context_gets_the_same_response_as_an_unknown_one(
    client: ApiClient, context: str, shared_client: ApiClient
) -> None:
    assert without_time(shared_client.upload(context=context)) == without_time(
        shared_client.upload(context="no_" + context[3:])
    )
    assert client.object_keys() == set()


@each_row("first", ["file", "context"])
def test_inactive_context_refuses_uploads(client: ApiClient, first: str) -> None:
    client = client.other_tenant_client().with_store()
    context = client.create_context()
    client.patch(f"/contexts/{context}", {"status": "inactive"})
    parts = [file("note.txt", TEXT), field("context", context)]
    response = client.upload_parts(parts if first == "file" else parts[::-1])
    assert_error(response, 409, "Context is inactive", "Set the context's status to active, or upload into another")
    assert client.object_keys() == set()
    client.patch(f"/contexts/{context}", {"status": "active"})
    client.store(context=context)


# metadata


GOOD_METADATA: list[Any] = [
    {},
    {"a": 1},
    {"nested": {"list": [1, "two", None, 3.5, False]}},
    {"ü": "🌊"},
    {"zero": "a\u0000b", "big": 2**63, "": None},
    {"text": "x" * (4096 - len('{"text": ""}'))},
]


@each_row("metadata", GOOD_METADATA)
def test_valid_metadata_is_kept(client: ApiClient, context: str, metadata: Any) -> None:
    file_id = client.store(context=context, metadata=json.dumps(metadata, ensure_ascii=False))
    assert data(client.get(f"/files/{file_id}/metadata"))["metadata"] == metadata


BAD_METADATA = [
    json.dumps({"text": "x" * (4097 - len('{"text": ""}'))}),
    json.dumps({"text": "ü" * 2048}, ensure_ascii=False),
    "",
    "null",
    "[]",
    '"text"',
    "7",
    "{",
    "{'a': 1}",
    '{"a": NaN}',
    '{"a": Infinity}',
    '{"a": 1, "a": 2}',
    '{"a": {"b": 1, "b": 2}}',
    '{"a": "\\ud800"}',
    '{"a":' * 33 + "1" + "}" * 33,
    '{"a": 1} {"b": 2}',
    '{"a": 1e999}',
]


@each_row("metadata", BAD_METADATA)
def test_invalid_metadata_is_refused(shared_client: ApiClient, shared_context: str, metadata: str) -> None:
    assert_validation_error(shared_client.upload(context=shared_context, metadata=metadata), "metadata")


def test_metadata_that_is_not_utf8_is_refused(shared_client: ApiClient, shared_context: str) -> None:
    parts = [file("note.txt", TEXT), field("context", shared_context), Part("metadata", b'{"a": "\xff"}')]
    assert shared_client.upload_parts(parts).status_code in {400, 422}


def test_oversized_metadata_is_refused(shared_client: ApiClient, shared_context: str) -> None:
    response = shared_client.upload(context=shared_context, metadata=json.dumps({"text": "x" * 200_000}))
    assert response.status_code in {400, 413, 422}, response.text


# names


@each_row(
    "sent, kept",
    [
        ("note.txt", "note.txt"),
        ("Ünïcødé 文件 🌊.txt", "Ünïcødé 文件 🌊.txt"),
        (unicodedata.normalize("NFD", "Ünïcødé.txt"), "Ünïcødé.txt"),
        ("/etc/passwd.txt", "passwd.txt"),
        ("../../up.txt", "up.txt"),
        ("C:\\Users\\me\\note.txt", "note.txt"),
        ("..\\..\\up.txt", "up.txt"),
        ("two words.tar.txt", "two words.tar.txt"),
        (".hidden.txt", ".hidden.txt"),
        ("x" * 251 + ".txt", "x" * 251 + ".txt"),
        ("noextension", "noextension"),
        ("semi;colon.txt", "semi;colon.txt"),
        ("per%cent.txt", "per%cent.txt"),
        ("it's.txt", "it's.txt"),
        ("$(reboot).txt", "$(reboot).txt"),
    ],
)
def test_file_name_is_kept_without_its_path(client: ApiClient, context: str, sent: str, kept: str) -> None:
    before = client.object_keys()
    stored = data(client.upload(sent.encode(), context=context), 201)
    assert stored["original_filename"] == kept
    (key,) = client.object_keys() - before
    assert stored["file_id"] in key
    assert kept.partition(".")[0] not in key.replace(stored["context_key"], "") or kept.startswith(".")


@each_row(
    "name",
    [
        b"",
        b"/",
        b"..",
        b".",
        b"dir/",
        b"a\x00b.txt",
        b"a\x01b.txt",
        b"a\x7fb.txt",
        b"tab\t.txt",
        b"\xff\xfe.txt",
        b"x" * 252 + b".txt",
        b"...",
    ],
)
def test_invalid_file_name_is_refused(shared_client: ApiClient, shared_context: str, name: bytes) -> None:
    response = shared_client.upload(name, context=shared_context)
    assert response.status_code in {400, 422}, response.text
    if response.status_code == 422:
        assert_validation_error(response, "file")


@each_row("name", [b"a\x00b.txt", b"", b"x" * 252 + b".txt"])
def test_error_for_an_invalid_file_name_names_the_file_field(
    shared_client: ApiClient, shared_context: str, name: bytes
) -> None:
    response = shared_client.upload(name, context=shared_context)
    assert_validation_error(response, "file")


# content


@each_row("claimed", ["text/html", "image/png", "application/x-msdownload", "nonsense", None])
def test_content_type_is_detected_from_the_content(client: ApiClient, context: str, claimed: str | None) -> None:
    parts = [Part("file", picture(), "p.png", claimed), field("context", context)]
    assert data(client.upload_parts(parts), 201)["content_type"] == "image/png"


def test_unknown_content_is_an_octet_stream(client: ApiClient) -> None:
    context = client.create_context()
    assert (
        data(client.upload("data.zzz", noise(5000), context=context), 201)["content_type"] == "application/octet-stream"
    )


def test_checksum_is_computed_over_the_uploaded_bytes(client: ApiClient, context: str) -> None:
    file_id = client.store("data.zzz", noise(300_000), context=context)
    shown = data(client.get(f"/files/{file_id}/metadata"))
    assert shown["checksum"] == f"sha256:{hashlib.sha256(noise(300_000)).hexdigest()}"
    assert shown["size_bytes"] == 300_000


def test_boundary_like_content_is_kept_unchanged(client: ApiClient, context: str) -> None:
    tricky = b"\r\n--" + forms.BOUNDARY[:-1].encode() + b"\r\n--\r\n" + TEXT + b"\r\n--x\r\n\r\n"
    file_id = client.store("data.zzz", tricky, context=context)
    assert data(client.get(f"/files/{file_id}/metadata"))["checksum"] == f"sha256:{hashlib.sha256(tricky).hexdigest()}"


def test_same_file_uploaded_twice_is_stored_twice(client: ApiClient, context: str) -> None:
    assert client.store(context=context) != client.store(context=context)
    assert len(client.object_keys()) == 2
    assert client.used_bytes(context) == 2 * len(TEXT)
