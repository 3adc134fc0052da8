"""Why an upload is rejected: every reason code, the order of the rules, the switches. Limits are in `test_limits`."""

import pytest
from PIL import ImageFilter

from tests.api import samples
from tests.api.responses import assert_rejected, data
from tests.api.samples import TEXT, eicar, noise, picture, zip_of
from tests.inspection.formats.image_samples import encoded, text_page
from tests.rows import each_row, every_row
from tests.service import ApiClient

MB = 1_048_576
PNG = picture()
EVIL = zip_of(("evil.txt", TEXT))
HTML = b"<!DOCTYPE html><html><body><script>alert(1)</script>Clean water</body></html>"
ALL_CHECKS_OFF = {"reject_blank_files": False, "reject_corrupt_files": False, "scan_for_viruses": False}


def _assert_all_rejected(client: ApiClient, *rows: tuple[str, str, bytes], **rules: object) -> None:
    """Assert that each file is rejected with its reason by a context with these rules, and that nothing is stored."""
    context = client.create_context(**rules)
    with every_row() as row:
        for reason, name, content in rows:
            with row((reason, name)):
                assert_rejected(client.upload(name, content, context=context), reason)
    assert client.used_bytes(context) == 0
    assert client.get("/files", context=context).json()["data"] == []
    assert not [key for key in client.object_keys() if f"/{context}/" in key]


def test_only_allowed_extensions_are_accepted(client: ApiClient) -> None:
    for allowed, names in [
        *(("pdf", ["note.txt"]), ("txt", ["note", "txt", ".txt.exe"]), ("jpg", ["a.jpeg"]), ("gz", ["a.gz.txt"])),
        *(("tx", ["a.txt"]), ("txtx", ["a.txt"])),
    ]:
        rows = [("extension_not_allowed", name, TEXT) for name in names]
        _assert_all_rejected(client, *rows, allowed_extensions=[allowed])
    for extensions, names in [
        *((["pdf", "txt"], ["a.txt"]), ([".txt"], ["a.txt"]), (["TXT"], ["a.txt"]), ([], ["a.anything", "nothing"])),
        (["txt"], ["a.txt", "A.TXT", "a.exe.txt", "a.txt. . "]),
    ]:
        context = client.create_context(allowed_extensions=extensions)
        for name in names:
            client.store(name, context=context)


def test_file_of_exactly_the_largest_size_is_accepted(client: ApiClient) -> None:
    _assert_all_rejected(client, ("file_too_large", "a.zzz", noise(MB + 1)), max_file_size_mb=1)
    context = client.create_context(max_file_size_mb=1)
    assert data(client.upload("a.zzz", noise(MB), context=context), 201)["size_bytes"] == MB
    assert len([key for key in client.object_keys() if f"/{context}/" in key]) == 1


TRUNCATED = ["pdf", "png", "jpg", "gif", "webp", "docx", "xlsx", "pptx", "zip", "json", "xml"]
BLANKS = {
    "a.txt": b" \n\t\r\n ",
    "a.png": samples.white_picture(),
    "a.jpg": samples.white_picture("JPEG"),
    "a.pdf": samples.pdf(b""),
    "a.docx": samples.docx_file(""),
    "a.xlsx": samples.xlsx_file(None),
    "a.json": b"{}",
    "a.csv": b"\n\n",
    **dict.fromkeys(("zero.txt", "zero.zzz", "zero.pdf"), b""),
    "zeros.pdf": bytes(4096),
    "ones.png": b"\xff" * 4096,
}


@pytest.mark.asvs("5.2.2", "5.2.3", "5.2.6", "5.3.3")
def test_file_that_is_not_what_it_claims_to_be_is_rejected_and_not_stored(client: ApiClient) -> None:
    sound = {extension: make() for extension, make in samples.SOUND_FILES.items()}
    _assert_all_rejected(
        client,
        *(("corrupt_file", f"a.{name}", sound[name][: len(sound[name]) * 6 // 10]) for name in TRUNCATED),
        *(
            ("type_mismatch", f"a.{name}", PNG if name != "png" else sound["pdf"])
            for name in sound.keys() - {"csv", "txt"}
        ),
        *(("type_mismatch", f"a.{name}", HTML) for name in ("pdf", "png", "jpg", "txt")),
        *(("polyglot_file", "a.png", PNG + EVIL), ("polyglot_file", "a.pdf", sound["pdf"] + EVIL)),
        ("validation_limits_exceeded", "deep.json", b"[" * 100_000 + b"]" * 100_000),
        ("archive_bomb", "a.zip", samples.zip_bomb()),
        *(
            ("archive_unsafe", "a.zip", zip_of((member, TEXT)))
            for member in ("../evil.txt", "/etc/evil.txt", "a/../../evil.txt")
        ),
        ("image_too_large", "a.png", samples.huge_picture()),
        *(("blank_document", name, content) for name, content in BLANKS.items()),
    )


def test_blank_and_corrupt_files_are_accepted_when_they_are_allowed(client: ApiClient) -> None:
    context = client.create_context(reject_blank_files=False)
    for name in ("a.txt", "a.png", "a.pdf", "a.docx", "a.xlsx", "a.json", "zero.zzz"):
        file_id = client.store(name, BLANKS[name], context=context)
        assert data(client.get(f"/files/{file_id}/metadata"))["size_bytes"] == len(BLANKS[name])
    rows = [("corrupt_file", name, BLANKS[name]) for name in ("zero.pdf", "zeros.pdf", "ones.png")]
    _assert_all_rejected(client, *rows, reject_blank_files=False)
    context = client.create_context(**ALL_CHECKS_OFF)
    for name, content in [
        *(("a.png", PNG[:-20]), ("a.pdf", PNG), ("a.png", PNG + EVIL), ("a.zip", zip_of(("../evil.txt", TEXT)))),
        *(("a.png", samples.huge_picture()), ("a.zip", samples.zip_bomb())),
    ]:
        stored = data(client.upload(name, content, context=context), 201)
        if content == PNG:  # the type is detected without the rule
            assert stored["content_type"] == "image/png"


PACKED = zip_of(("readme.txt", TEXT), ("a.com", eicar()))


def test_virus_is_rejected_unless_scanning_is_off(client: ApiClient) -> None:
    rows = [("a.txt", eicar()), ("a.com", eicar()), ("a.zzz", eicar()), ("a.zip", PACKED)]
    _assert_all_rejected(client, *(("virus_detected", *row) for row in rows))
    context = client.create_context(scan_for_viruses=False)
    for name, content in rows:
        client.store(name, content, context=context)


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
    _assert_all_rejected(client, (reason, name, content), **rules)


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


def test_sound_file_is_accepted_under_all_rules_with_its_content_type(client: ApiClient) -> None:
    context = client.create_context()
    assert_rejected(client.upload("a.png", PNG[:-20], context=context), "corrupt_file")
    for extension, make in samples.SOUND_FILES.items():
        content = make()
        stored = data(client.upload(f"a.{extension}", content, context=context), 201)
        assert stored["size_bytes"] == len(content)
        assert stored["content_type"] == CONTENT_TYPES.get(extension, stored["content_type"])


def test_blurred_page_is_rejected_with_what_to_do_and_a_sharp_one_accepted(client: ApiClient) -> None:
    context = client.create_context(context_key="claims", policies={"legible": {}})
    page = text_page(500, 700)
    blurred = encoded(page.filter(ImageFilter.GaussianBlur(4)), "PNG")
    rejected = client.upload("receipt.png", blurred, context=context)
    assert_rejected(rejected, "illegible_picture")
    assert rejected.json()["report"]["message"].startswith("This photo is blurred. Please hold the phone still")
    assert client.upload("receipt.png", encoded(page, "PNG"), context=context).status_code == 201
    unasked = client.create_context(context_key="others")
    assert client.upload("receipt.png", blurred, context=unasked).status_code == 201
