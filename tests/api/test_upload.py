"""Uploads: the form, the response, file names and metadata. What the rules reject is in `test_upload_rules`."""

import hashlib
import json
import unicodedata
from typing import Any

import pytest

from tests.api import forms
from tests.api.forms import Part, field, file
from tests.api.responses import assert_error, assert_not_found, assert_validation_error, data, page
from tests.api.samples import TEXT, noise, picture
from tests.rows import each_row
from tests.service import ApiClient


@pytest.fixture(scope="module")
def shared_context(shared_client: ApiClient) -> str:
    return shared_client.create_context()


def test_upload_response_has_exactly_the_fields_of_the_interface_and_the_type_of_the_content(
    client: ApiClient, context: str
) -> None:
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
    for claimed in ("text/html", "image/png", "application/x-msdownload", "nonsense", None):
        parts = [Part("file", picture(), "p.png", claimed), field("context", context)]
        assert data(client.upload_parts(parts), 201)["content_type"] == "image/png", claimed
    unknown = data(client.upload("data.zzz", noise(5000), context=context), 201)
    assert unknown["content_type"] == "application/octet-stream"


@each_row("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 1), (1, 0), (3, 0, 1, 4)])
def test_form_fields_may_come_in_any_order(client: ApiClient, context: str, order: tuple[int, ...]) -> None:
    unknown = [field("flavour", "salt"), field("", "nameless")]
    fields = [file("note.txt", TEXT), field("context", context), field("metadata", '{"a": 1}'), *unknown]
    stored = data(client.upload_parts([fields[number] for number in order]), 201)
    assert (stored["size_bytes"], stored["metadata"]) == (len(TEXT), {"a": 1} if 2 in order else {})


@pytest.mark.asvs("15.3.7")
def test_missing_and_duplicate_form_fields_are_refused(shared_client: ApiClient, shared_context: str) -> None:
    fields = {"file": file("note.txt", TEXT), "context": field("context", shared_context)}
    for missing in fields:
        response = shared_client.upload_parts([part for name, part in fields.items() if name != missing])
        assert_validation_error(response, missing)
        assert response.json()["errors"] == [f"{missing}: field required"]
    assert_validation_error(shared_client.upload_parts([field("metadata", "{}")]), "file", "context")
    without_name = shared_client.upload_parts([field("file", "words"), fields["context"]])
    assert without_name.status_code in {400, 422}
    for twice in ["file", "context", "metadata"]:
        parts = [file("note.txt", TEXT), field("context", shared_context), field("metadata", "{}")]
        again = next(part for part in parts if part.name == twice)
        response = shared_client.upload_parts([*parts, again])
        assert response.status_code in {400, 422}, response.text
        assert page(shared_client.get("/files", context=shared_context))[0] == []


@each_row("key", ["unknown", "UPPER", "", "a" * 3000, "a\x00b", "../x"])
def test_returns_404_for_an_unknown_context(shared_client: ApiClient, key: str) -> None:
    assert_not_found(shared_client.upload(context=key))


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
    *("", "null", "[]", '"text"', "7", "{", "{'a': 1}", '{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}'),
    *('{"a": {"b": 1, "b": 2}}', '{"a": "\\ud800"}', '{"a": 1} {"b": 2}', '{"a": 1e999}'),
    '{"a":' * 33 + "1" + "}" * 33,
]


def test_invalid_metadata_is_refused(shared_client: ApiClient, shared_context: str) -> None:
    for metadata in BAD_METADATA:
        assert_validation_error(shared_client.upload(context=shared_context, metadata=metadata), "metadata")
    for content in (b'{"a": "\xff"}', b'{"text": "' + b"x" * 200_000 + b'"}'):
        parts = [file("note.txt", TEXT), field("context", shared_context), Part("metadata", content)]
        assert shared_client.upload_parts(parts).status_code in {400, 413, 422}


@each_row(
    "sent, kept",
    [
        (unicodedata.normalize("NFD", "Ünïcødé.txt"), "Ünïcødé.txt"),
        ("/etc/passwd.txt", "passwd.txt"),
        ("../../up.txt", "up.txt"),
        ("C:\\Users\\me\\note.txt", "note.txt"),
        ("..\\..\\up.txt", "up.txt"),
        *(
            (name, name)
            for name in ("note.txt", "Ünïcødé 文件 🌊.txt", "two words.tar.txt", ".hidden.txt", "noextension")
        ),
        *((name, name) for name in ("semi;colon.txt", "per%cent.txt", "it's.txt", "$(reboot).txt", "x" * 251 + ".txt")),
    ],
)
def test_file_name_is_kept_without_its_path(client: ApiClient, context: str, sent: str, kept: str) -> None:
    before = client.object_keys()
    stored = data(client.upload(sent.encode(), context=context), 201)
    assert stored["original_filename"] == kept
    (key,) = client.object_keys() - before
    assert stored["file_id"] in key
    assert kept.partition(".")[0] not in key.replace(stored["context_key"], "") or kept.startswith(".")


LONG_NAME = b"x" * 252 + b".txt"
BAD_NAMES = (b"/", b"..", b".", b"dir/", b"a\x01b.txt", b"a\x7fb.txt", b"tab\t.txt", b"\xff\xfe.txt", b"...")


@each_row("name", [b"a\x00b.txt", b"", LONG_NAME, *BAD_NAMES])
def test_invalid_file_name_is_refused(shared_client: ApiClient, shared_context: str, name: bytes) -> None:
    response = shared_client.upload(name, context=shared_context)
    assert response.status_code in ({400, 422} if name in BAD_NAMES else {422}), response.text
    if response.status_code == 422:
        assert_validation_error(response, "file")


TRICKY = b"\r\n--" + forms.BOUNDARY[:-1].encode() + b"\r\n--\r\n" + TEXT + b"\r\n--x\r\n\r\n"


@each_row("content", [noise(300_000), TRICKY], ids=["noise", "like a boundary"])
def test_checksum_is_computed_over_the_uploaded_bytes(client: ApiClient, context: str, content: bytes) -> None:
    file_id = client.store("data.zzz", content, context=context)
    shown = data(client.get(f"/files/{file_id}/metadata"))
    assert (shown["checksum"], shown["size_bytes"]) == (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


def test_same_file_uploaded_twice_is_stored_and_charged_twice(client: ApiClient, context: str) -> None:
    stored = set()
    for number in (1, 2):
        stored.add(client.store(context=context))
        assert len(stored) == len(client.object_keys()) == number
        assert client.used_bytes(context) == number * len(TEXT)
