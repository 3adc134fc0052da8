"""Why an upload is rejected: every reason code, the order of the rules, the switches. Limits are in `test_limits`."""

from collections.abc import Callable

import pytest

from tests.api import samples
from tests.api.responses import assert_rejected, data
from tests.api.samples import TEXT, eicar, noise, picture, zip_of
from tests.rows import each_row
from tests.service import ApiClient

MB = 1_048_576


PNG = picture()


EVIL = zip_of(("evil.txt", TEXT))
HTML = b"<!DOCTYPE html><html><body><script>alert(1)</script>Clean water</body></html>"


ALL_CHECKS_OFF = {"reject_blank_files": False, "reject_corrupt_files": False, "scan_for_viruses": False}


def _assert_rejected_and_not_stored(client: ApiClient, reason: str, name: str, content: bytes, **rules: object) -> None:
    context = client.create_context(**rules)
    assert_rejected(client.upload(name, content, context=context), reason)
    assert client.used_bytes(context) == 0
    assert client.get("/files").json()["data"] == []
    assert client.object_keys() == set()


@each_row("allowed, name", [
    *(("pdf", "note.txt"), ("txt", "note"), ("txt", "txt"), ("txt", ".txt.exe"), ("jpg", "a.jpeg"), ("gz", "a.gz.txt")),
    *(("tx", "a.txt"), ("txtx", "a.txt")),
])  # fmt: skip
def test_extension_that_is_not_allowed_is_rejected(client: ApiClient, allowed: str, name: str) -> None:
    _assert_rejected_and_not_stored(client, "extension_not_allowed", name, TEXT, allowed_extensions=[allowed])


@each_row("allowed, name", [
    *((["txt"], "a.txt"), (["pdf", "txt"], "a.txt"), ([".txt"], "a.txt"), (["TXT"], "a.txt"), (["txt"], "A.TXT")),
    *((["txt"], "a.exe.txt"), (["txt"], "a.txt. . "), ([], "a.anything"), ([], "nothing")),
])  # fmt: skip
def test_allowed_extension_is_accepted(client: ApiClient, allowed: list[str], name: str) -> None:
    client.store(name, context=client.create_context(allowed_extensions=allowed))


def test_file_of_exactly_the_largest_size_is_accepted(client: ApiClient) -> None:
    _assert_rejected_and_not_stored(client, "file_too_large", "a.zzz", noise(MB + 1), max_file_size_mb=1)
    context = client.create_context(max_file_size_mb=1)
    assert data(client.upload("a.zzz", noise(MB), context=context), 201)["size_bytes"] == MB


TRUNCATED = ["pdf", "png", "jpg", "gif", "webp", "docx", "xlsx", "pptx", "zip", "json", "xml"]


@each_row("extension", TRUNCATED)
def test_truncated_file_is_rejected_as_corrupt(client: ApiClient, extension: str) -> None:
    complete = samples.SOUND_FILES[extension]()
    _assert_rejected_and_not_stored(client, "corrupt_file", f"a.{extension}", complete[: len(complete) * 6 // 10])


@each_row("extension", [name for name in samples.SOUND_FILES if name not in {"csv", "txt"}])
@pytest.mark.asvs("5.2.2")
def test_file_of_another_format_is_rejected_as_mismatch(client: ApiClient, extension: str) -> None:
    other = PNG if extension != "png" else samples.pdf()
    _assert_rejected_and_not_stored(client, "type_mismatch", f"a.{extension}", other)


@each_row("reason, name, content", [
    *(("type_mismatch", f"a.{extension}", HTML) for extension in ("pdf", "png", "jpg", "txt")),
    *(("polyglot_file", "a.png", PNG + EVIL), ("polyglot_file", "a.pdf", samples.pdf() + EVIL)),
    ("validation_limits_exceeded", "deep.json", b"[" * 100_000 + b"]" * 100_000),
])  # fmt: skip
def test_disguised_or_too_complex_file_is_rejected(client: ApiClient, reason: str, name: str, content: bytes) -> None:
    _assert_rejected_and_not_stored(client, reason, name, content)


@pytest.mark.asvs("5.2.3")
def test_archive_bomb_is_rejected(client: ApiClient) -> None:
    _assert_rejected_and_not_stored(client, "archive_bomb", "a.zip", samples.zip_bomb())


@each_row("member", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt"])
@pytest.mark.asvs("5.3.3")
def test_archive_with_path_traversal_is_rejected(client: ApiClient, member: str) -> None:
    _assert_rejected_and_not_stored(client, "archive_unsafe", "a.zip", zip_of((member, TEXT)))


@pytest.mark.asvs("5.2.6")
def test_image_with_billions_of_pixels_is_rejected(client: ApiClient) -> None:
    _assert_rejected_and_not_stored(client, "image_too_large", "a.png", samples.huge_picture())


BLANKS = {
    "a.txt": b" \n\t\r\n ",
    "a.png": samples.white_picture(),
    "a.jpg": samples.white_picture("JPEG"),
    "a.pdf": samples.pdf(b""),
    "a.docx": samples.docx_file(""),
    "a.xlsx": samples.xlsx_file(None),
    "a.json": b"{}",
    "a.csv": b"\n\n",
    "zero.txt": b"",
    "zero.zzz": b"",
    "zero.pdf": b"",
    "zeros.pdf": bytes(4096),
    "ones.png": b"\xff" * 4096,
}


@each_row("name", BLANKS)
def test_blank_file_is_rejected(client: ApiClient, name: str) -> None:
    _assert_rejected_and_not_stored(client, "blank_document", name, BLANKS[name])


@each_row("name", ["a.txt", "a.png", "a.pdf", "a.docx", "a.xlsx", "a.json", "zero.zzz"])
def test_blank_file_is_accepted_when_blank_files_are_allowed(client: ApiClient, name: str) -> None:
    file_id = client.store(name, BLANKS[name], context=client.create_context(reject_blank_files=False))
    assert data(client.get(f"/files/{file_id}/metadata"))["size_bytes"] == len(BLANKS[name])


@each_row("name", ["zero.pdf", "zeros.pdf", "ones.png"])
def test_empty_file_of_a_known_format_is_corrupt_when_blank_files_are_allowed(client: ApiClient, name: str) -> None:
    _assert_rejected_and_not_stored(client, "corrupt_file", name, BLANKS[name], reject_blank_files=False)


PACKED = zip_of(("readme.txt", TEXT), ("a.com", eicar()))


@each_row("name, content", [("a.txt", eicar()), ("a.com", eicar()), ("a.zzz", eicar()), ("a.zip", PACKED)])
def test_virus_is_rejected_unless_scanning_is_off(client: ApiClient, name: str, content: bytes) -> None:
    client = client.other_tenant_client().with_store()
    _assert_rejected_and_not_stored(client, "virus_detected", name, content)
    client.store(name, content, context=client.create_context(scan_for_viruses=False))


@each_row(
    "name, content",
    [
        *(("a.png", PNG[:-20]), ("a.pdf", PNG), ("a.png", PNG + EVIL), ("a.zip", zip_of(("../evil.txt", TEXT)))),
        *(("a.png", samples.huge_picture), ("a.zip", samples.zip_bomb)),
    ],
)
def test_corrupt_files_are_accepted_when_they_are_allowed(
    client: ApiClient, name: str, content: bytes | Callable[[], bytes]
) -> None:
    content = content if isinstance(content, bytes) else content()
    stored = data(client.upload(name, content, context=client.create_context(**ALL_CHECKS_OFF)), 201)
    if content == PNG:  # the type is detected without the rule
        assert stored["content_type"] == "image/png"


ORDERED = [
    ("extension_not_allowed", "a.exe", noise(MB + 1), {"allowed_extensions": ["pdf"], "max_file_size_mb": 1}),
    ("file_too_large", "a.png", bytes(MB + 1), {"max_file_size_mb": 1}),
    ("storage_quota_exceeded", "a.pdf", PNG + noise(MB), {"storage_quota_mb": 1}),
    ("blank_document", "a.pdf", bytes(100), {}),
    ("type_mismatch", "a.pdf", eicar(), {}),
    ("blank_document", "a.zip", zip_of(("empty.txt", b"")), {}),
    ("corrupt_file", "a.zip", zip_of(("a.com", eicar()), ("b.txt", TEXT))[:-30], {}),
]


@each_row("reason, name, content, rules", ORDERED)
@pytest.mark.asvs("2.3.1")
def test_first_failed_rule_determines_the_reason_code(
    client: ApiClient, reason: str, name: str, content: bytes, rules: dict[str, object]
) -> None:
    _assert_rejected_and_not_stored(client, reason, name, content, **rules)


CONTENT_TYPES = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "zip": "application/zip",
    "csv": "text/csv",
    "json": "application/json",
    "txt": "text/plain",
}


@each_row("extension", samples.SOUND_FILES)
def test_sound_file_is_accepted_under_all_rules_with_its_content_type(client: ApiClient, extension: str) -> None:
    content = samples.SOUND_FILES[extension]()
    stored = data(client.upload(f"a.{extension}", content, context=client.create_context()), 201)
    assert stored["size_bytes"] == len(content)
    assert stored["content_type"] == CONTENT_TYPES.get(extension, stored["content_type"])


def test_repaired_file_is_accepted_after_a_rejection(client: ApiClient) -> None:
    context = client.create_context()
    assert_rejected(client.upload("a.png", PNG[:-20], context=context), "corrupt_file")
    client.store("a.png", PNG, context=context)
