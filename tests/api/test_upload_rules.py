"""Why an upload is rejected: every reason code, the order of the rules and the switches. Limits over time are in `test_limits`."""

import pytest

from tests.api import samples
from tests.api.answers import data, rejected
from tests.api.samples import TEXT, eicar, noise, picture, zip_of
from tests.gate import Gate

MB = 1_048_576
PNG = picture()
OFF = {"reject_blank_files": False, "reject_corrupt_files": False, "scan_for_viruses": False}


def _is_rejected(gate: Gate, reason: str, name: str, content: bytes, **rules: object) -> None:
    context = gate.context(**rules)
    rejected(gate.upload(name, content, context=context), reason)
    assert gate.used(context) == 0
    assert gate.get("/files").json()["data"] == []
    assert gate.objects() == set()


# extension


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        (["pdf"], "note.txt"),
        (["txt"], "note"),
        (["txt"], "txt"),
        (["txt"], ".txt.exe"),
        (["jpg"], "a.jpeg"),
        (["gz"], "a.gz.txt"),
        (["tx"], "a.txt"),
        (["txtx"], "a.txt"),
    ],
)
def test_an_extension_that_is_not_allowed_is_rejected(gate: Gate, allowed: list[str], name: str) -> None:
    _is_rejected(gate, "extension_not_allowed", name, TEXT, allowed_extensions=allowed)


@pytest.mark.parametrize(
    ("allowed", "name"),
    [
        (["txt"], "a.txt"),
        (["pdf", "txt"], "a.txt"),
        ([".txt"], "a.txt"),
        (["TXT"], "a.txt"),
        (["txt"], "A.TXT"),
        (["txt"], "a.exe.txt"),
        (["txt"], "a.txt. . "),
        ([], "a.anything"),
        ([], "nothing"),
    ],
)
def test_an_allowed_extension_passes(gate: Gate, allowed: list[str], name: str) -> None:
    gate.store(name, context=gate.context(allowed_extensions=allowed))


# size


def test_a_file_of_exactly_the_largest_size_passes(gate: Gate) -> None:
    context = gate.context(max_file_size_mb=1)
    assert data(gate.upload("a.zzz", noise(MB), context=context), 201)["size_bytes"] == MB


def test_a_file_of_a_byte_more_is_rejected(gate: Gate) -> None:
    _is_rejected(gate, "file_too_large", "a.zzz", noise(MB + 1), max_file_size_mb=1)


# integrity


TRUNCATED = ["pdf", "png", "jpg", "gif", "webp", "docx", "xlsx", "pptx", "zip", "json", "xml"]


@pytest.mark.parametrize("extension", TRUNCATED)
def test_a_truncated_file_is_corrupt(gate: Gate, extension: str) -> None:
    whole = samples.sound()[extension]
    _is_rejected(gate, "corrupt_file", f"a.{extension}", whole[: len(whole) * 6 // 10])


@pytest.mark.parametrize("extension", [name for name in samples.sound() if name not in {"csv", "txt"}])
@pytest.mark.asvs("5.2.2")
def test_a_file_of_another_format_is_a_mismatch(gate: Gate, extension: str) -> None:
    other = PNG if extension != "png" else samples.pdf()
    _is_rejected(gate, "type_mismatch", f"a.{extension}", other)


@pytest.mark.parametrize("extension", ["pdf", "png", "jpg", "txt"])
def test_a_page_of_html_under_another_name_is_a_mismatch(gate: Gate, extension: str) -> None:
    page = b"<!DOCTYPE html><html><body><script>alert(1)</script>Clean water</body></html>"
    _is_rejected(gate, "type_mismatch", f"a.{extension}", page)


def test_a_picture_that_is_an_archive_too_is_a_polyglot(gate: Gate) -> None:
    _is_rejected(gate, "polyglot_file", "a.png", PNG + zip_of(("evil.txt", TEXT)))


def test_a_document_that_is_an_archive_too_is_a_polyglot(gate: Gate) -> None:
    _is_rejected(gate, "polyglot_file", "a.pdf", samples.pdf() + zip_of(("evil.txt", TEXT)))


@pytest.mark.asvs("5.2.3")
def test_an_archive_that_unpacks_to_gigabytes_is_a_bomb(gate: Gate) -> None:
    _is_rejected(gate, "archive_bomb", "a.zip", samples.zip_bomb())


@pytest.mark.parametrize("member", ["../evil.txt", "/etc/evil.txt", "a/../../evil.txt"])
@pytest.mark.asvs("5.3.3")
def test_an_archive_that_leaves_its_folder_is_unsafe(gate: Gate, member: str) -> None:
    _is_rejected(gate, "archive_unsafe", "a.zip", zip_of((member, TEXT)))


def test_a_document_too_complex_to_follow_passes_a_limit(gate: Gate) -> None:
    rejected(gate.upload("deep.json", b"[" * 100_000 + b"]" * 100_000, context=gate.context()), "validation_limits_exceeded")


@pytest.mark.asvs("5.2.6")
def test_a_picture_of_billions_of_pixels_is_too_large(gate: Gate) -> None:
    _is_rejected(gate, "image_too_large", "a.png", samples.vast_picture())


# blank


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


@pytest.mark.parametrize("name", BLANKS)
def test_a_blank_file_is_rejected(gate: Gate, name: str) -> None:
    _is_rejected(gate, "blank_document", name, BLANKS[name])


@pytest.mark.parametrize("name", ["a.txt", "a.png", "a.pdf", "a.docx", "a.xlsx", "a.json"])
def test_a_blank_file_passes_where_blanks_are_let_in(gate: Gate, name: str) -> None:
    gate.store(name, BLANKS[name], context=gate.context(reject_blank_files=False))


@pytest.mark.parametrize("name", ["zero.pdf", "zeros.pdf", "ones.png"])
def test_an_empty_file_of_a_known_format_is_corrupt_where_blanks_are_let_in(gate: Gate, name: str) -> None:
    _is_rejected(gate, "corrupt_file", name, BLANKS[name], reject_blank_files=False)


def test_an_empty_file_of_no_known_format_passes_where_blanks_are_let_in(gate: Gate) -> None:
    file_id = gate.store("zero.zzz", b"", context=gate.context(reject_blank_files=False))
    assert data(gate.get(f"/files/{file_id}/metadata"))["size_bytes"] == 0


# malware


@pytest.mark.parametrize("name", ["a.txt", "a.com", "a.zzz"])
def test_a_virus_is_rejected(gate: Gate, name: str) -> None:
    _is_rejected(gate, "virus_detected", name, eicar())


def test_a_virus_inside_an_archive_is_rejected(gate: Gate) -> None:
    _is_rejected(gate, "virus_detected", "a.zip", zip_of(("readme.txt", TEXT), ("a.com", eicar())))


def test_the_name_of_a_virus_is_not_told(gate: Gate) -> None:
    answer = gate.upload("a.txt", eicar(), context=gate.context())
    assert "eicar" not in answer.text.lower()


def test_a_virus_passes_where_nothing_is_scanned(gate: Gate) -> None:
    gate.store("a.txt", eicar(), context=gate.context(scan_for_viruses=False))


# switches and order


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.png", PNG[:-20]),
        ("a.pdf", PNG),
        ("a.png", PNG + zip_of(("evil.txt", TEXT))),
        ("a.zip", zip_of(("../evil.txt", TEXT))),
        ("a.png", samples.vast_picture()),
    ],
    ids=["truncated", "mismatch", "polyglot", "unsafe", "pixels"],
)
def test_one_switch_lets_in_all_that_is_not_intact(gate: Gate, name: str, content: bytes) -> None:
    gate.store(name, content, context=gate.context(**OFF))


def test_the_switch_lets_in_a_bomb_too(gate: Gate) -> None:
    gate.store("a.zip", samples.zip_bomb(), context=gate.context(**OFF))


def test_without_the_integrity_rule_the_content_type_is_still_of_the_content(gate: Gate) -> None:
    assert data(gate.upload("a.pdf", PNG, context=gate.context(**OFF)), 201)["content_type"] == "image/png"


ORDERED = [
    ("extension_not_allowed", "a.exe", noise(MB + 1), {"allowed_extensions": ["pdf"], "max_file_size_mb": 1}),
    ("file_too_large", "a.png", bytes(MB + 1), {"max_file_size_mb": 1}),
    ("storage_quota_exceeded", "a.pdf", PNG + noise(MB), {"storage_quota_mb": 1}),
    ("blank_document", "a.pdf", bytes(100), {}),
    ("type_mismatch", "a.pdf", eicar(), {}),
    ("blank_document", "a.zip", zip_of(("empty.txt", b"")), {}),
]


@pytest.mark.parametrize(
    ("reason", "name", "content", "rules"), ORDERED, ids=[f"{number} {row[0]}" for number, row in enumerate(ORDERED)]
)
@pytest.mark.asvs("2.3.1")
def test_the_first_rule_that_fails_names_the_rejection(
    gate: Gate, reason: str, name: str, content: bytes, rules: dict[str, object]
) -> None:
    _is_rejected(gate, reason, name, content, **rules)


def test_corruption_is_told_before_malware(gate: Gate) -> None:
    archive = zip_of(("a.com", eicar()), ("b.txt", TEXT))
    _is_rejected(gate, "corrupt_file", "a.zip", archive[:-30])


@pytest.mark.parametrize("extension", samples.sound())
def test_a_sound_file_passes_every_rule(gate: Gate, extension: str) -> None:
    content = samples.sound()[extension]
    file_id = gate.store(f"a.{extension}", content, context=gate.context())
    assert data(gate.get(f"/files/{file_id}/metadata"))["size_bytes"] == len(content)


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


@pytest.mark.parametrize("extension", CONTENT_TYPES)
def test_the_content_type_names_the_format(gate: Gate, extension: str) -> None:
    answer = gate.upload(f"a.{extension}", samples.sound()[extension], context=gate.context())
    assert data(answer, 201)["content_type"] == CONTENT_TYPES[extension]


def test_a_rejected_file_can_be_sent_again_repaired(gate: Gate) -> None:
    context = gate.context()
    rejected(gate.upload("a.png", PNG[:-20], context=context), "corrupt_file")
    gate.store("a.png", PNG, context=context)
