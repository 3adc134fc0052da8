"""The upload itself: its form, its answer, its names and metadata, its wire. What the rules reject is in `test_upload_rules`."""

import hashlib
import json
import unicodedata
from typing import Any

import pytest

from tests.api import forms
from tests.api.answers import data, invalid, not_found, page, refused, without_time
from tests.api.forms import Part, field, file
from tests.api.samples import TEXT, noise, picture
from tests.gate import Gate


@pytest.fixture
def context(gate: Gate) -> str:
    return gate.context()


@pytest.fixture(scope="module")
def hall(lobby: Gate) -> str:
    """One context for all uploads that are refused."""
    return lobby.context()


def test_an_upload_answers_what_the_interface_lists(gate: Gate, context: str) -> None:
    answer = gate.upload("Hopper.PNG", picture(), context=context, metadata={"invoice": 7})
    stored = data(answer, 201)
    assert answer.json()["message"] == "File uploaded"
    assert stored.pop("file_id").startswith("file_")
    assert stored == {
        "original_filename": "Hopper.PNG",
        "content_type": "image/png",
        "size_bytes": len(picture()),
        "context_key": context,
        "metadata": {"invoice": 7},
    }


def test_an_upload_is_stored_and_charged(gate: Gate, context: str) -> None:
    gate.store(context=context)
    assert len(gate.objects()) == 1
    assert gate.used(context) == len(TEXT)


FIELDS = [file("note.txt", TEXT), field("context", "{context}"), field("metadata", '{"a": 1}')]
ORDERS = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (0, 1), (1, 0)]


def _for(context: str, parts: list[Part]) -> list[Part]:
    return [Part(one.name, one.content.replace(b"{context}", context.encode()), one.filename, one.content_type) for one in parts]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_fields_come_in_any_order(gate: Gate, context: str, order: tuple[int, ...]) -> None:
    stored = data(gate.upload_parts(_for(context, [FIELDS[number] for number in order])), 201)
    assert stored["size_bytes"] == len(TEXT)
    assert stored["metadata"] == ({"a": 1} if 2 in order else {})


def test_unknown_fields_are_ignored(gate: Gate, context: str) -> None:
    parts = [field("flavour", "salt"), file("note.txt", TEXT), field("context", context), field("", "nameless")]
    data(gate.upload_parts(parts), 201)


@pytest.mark.parametrize("missing", ["file", "context"])
def test_a_missing_field_is_named(lobby: Gate, hall: str, missing: str) -> None:
    parts = [part for part in (file("note.txt", TEXT), field("context", hall)) if part.name != missing]
    answer = lobby.upload_parts(parts)
    invalid(answer, missing)
    assert answer.json()["errors"] == [f"{missing}: field required"]


def test_all_missing_fields_are_named(lobby: Gate) -> None:
    invalid(lobby.upload_parts([field("metadata", "{}")]), "file", "context")


def test_a_file_sent_as_text_is_no_file(lobby: Gate, hall: str) -> None:
    answer = lobby.upload_parts([field("file", "words"), field("context", hall)])
    assert answer.status_code in {400, 422}


@pytest.mark.parametrize("twice", ["file", "context", "metadata"])
@pytest.mark.asvs("15.3.7")
def test_a_field_sent_twice_is_refused(lobby: Gate, hall: str, twice: str) -> None:
    parts = [file("note.txt", TEXT), field("context", hall), field("metadata", "{}")]
    again = next(part for part in parts if part.name == twice)
    answer = lobby.upload_parts([*parts, again])
    assert answer.status_code in {400, 422}, answer.text
    assert page(lobby.get("/files", context=hall))[0] == []


@pytest.mark.parametrize("key", ["unknown", "UPPER", "", "a" * 3000, "a\x00b", "../x"])
def test_an_unknown_context_is_not_found(lobby: Gate, key: str) -> None:
    not_found(lobby.upload(context=key))


def test_another_tenants_context_answers_as_an_unknown_one(gate: Gate, context: str, lobby: Gate) -> None:
    assert without_time(lobby.upload(context=context)) == without_time(lobby.upload(context="no_" + context[3:]))
    assert gate.objects() == set()


@pytest.mark.parametrize("first", ["file", "context"])
def test_an_inactive_context_takes_no_uploads(gate: Gate, context: str, first: str) -> None:
    gate.patch(f"/contexts/{context}", {"status": "inactive"})
    parts = [file("note.txt", TEXT), field("context", context)]
    answer = gate.upload_parts(parts if first == "file" else parts[::-1])
    refused(answer, 409, "Context is inactive", "Set the context's status to active, or upload into another")
    assert gate.objects() == set()
    gate.patch(f"/contexts/{context}", {"status": "active"})
    gate.store(context=context)


# metadata


GOOD_METADATA: list[Any] = [
    {},
    {"a": 1},
    {"nested": {"list": [1, "two", None, 3.5, False]}},
    {"ü": "🌊"},
    {"zero": "a\u0000b", "big": 2**63, "": None},
    {"text": "x" * (4096 - len('{"text": ""}'))},
]


@pytest.mark.parametrize("metadata", GOOD_METADATA, ids=lambda value: repr(value)[:30])
def test_good_metadata_is_kept(gate: Gate, context: str, metadata: Any) -> None:
    file_id = gate.store(context=context, metadata=json.dumps(metadata, ensure_ascii=False))
    assert data(gate.get(f"/files/{file_id}/metadata"))["metadata"] == metadata


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


@pytest.mark.parametrize("metadata", BAD_METADATA, ids=lambda text: text[:16])
def test_bad_metadata_is_refused(lobby: Gate, hall: str, metadata: str) -> None:
    invalid(lobby.upload(context=hall, metadata=metadata), "metadata")


def test_metadata_that_is_not_utf8_is_refused(lobby: Gate, hall: str) -> None:
    parts = [file("note.txt", TEXT), field("context", hall), Part("metadata", b'{"a": "\xff"}')]
    assert lobby.upload_parts(parts).status_code in {400, 422}


def test_metadata_beyond_every_bound_is_refused(lobby: Gate, hall: str) -> None:
    answer = lobby.upload(context=hall, metadata=json.dumps({"text": "x" * 200_000}))
    assert answer.status_code in {400, 413, 422}, answer.text


# names


@pytest.mark.parametrize(
    ("sent", "kept"),
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
    ids=lambda name: str(name)[:20],
)
def test_the_name_is_kept_without_its_path(gate: Gate, context: str, sent: str, kept: str) -> None:
    stored = data(gate.upload(sent.encode(), context=context), 201)
    assert stored["original_filename"] == kept
    (key,) = gate.objects()
    assert stored["file_id"] in key
    assert kept.partition(".")[0] not in key.replace(stored["context_key"], "") or kept.startswith(".")


@pytest.mark.parametrize(
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
    ids=repr,
)
def test_a_name_that_is_none_is_refused(lobby: Gate, hall: str, name: bytes) -> None:
    answer = lobby.upload(name, context=hall)
    assert answer.status_code in {400, 422}, answer.text
    if answer.status_code == 422:
        invalid(answer, "file")


@pytest.mark.parametrize("name", [b"a\x00b.txt", b"", b"x" * 252 + b".txt"], ids=repr)
def test_a_refused_name_says_so_as_a_problem_of_the_file(lobby: Gate, hall: str, name: bytes) -> None:
    answer = lobby.upload(name, context=hall)
    invalid(answer, "file")


# content


@pytest.mark.parametrize("claimed", ["text/html", "image/png", "application/x-msdownload", "nonsense", None])
def test_the_content_type_is_what_the_content_is(gate: Gate, context: str, claimed: str | None) -> None:
    parts = [Part("file", picture(), "p.png", claimed), field("context", context)]
    assert data(gate.upload_parts(parts), 201)["content_type"] == "image/png"


def test_unknown_content_is_a_stream_of_octets(gate: Gate) -> None:
    context = gate.context()
    assert data(gate.upload("data.zzz", noise(5000), context=context), 201)["content_type"] == "application/octet-stream"


def test_the_checksum_is_of_the_bytes_sent(gate: Gate, context: str) -> None:
    file_id = gate.store("data.zzz", noise(300_000), context=context)
    shown = data(gate.get(f"/files/{file_id}/metadata"))
    assert shown["checksum"] == f"sha256:{hashlib.sha256(noise(300_000)).hexdigest()}"
    assert shown["size_bytes"] == 300_000


def test_content_that_looks_like_a_boundary_stays_content(gate: Gate, context: str) -> None:
    tricky = b"\r\n--" + forms.BOUNDARY[:-1].encode() + b"\r\n--\r\n" + TEXT + b"\r\n--x\r\n\r\n"
    file_id = gate.store("data.zzz", tricky, context=context)
    assert data(gate.get(f"/files/{file_id}/metadata"))["checksum"] == f"sha256:{hashlib.sha256(tricky).hexdigest()}"


def test_the_same_file_twice_is_two_files(gate: Gate, context: str) -> None:
    assert gate.store(context=context) != gate.store(context=context)
    assert len(gate.objects()) == 2
    assert gate.used(context) == 2 * len(TEXT)
