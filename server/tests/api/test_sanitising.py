"""Contexts that sanitise: what is stored, what its report says, and which files are not stored at all."""

import hashlib
import io
import zipfile
from functools import cache
from typing import Any

import httpx
import pikepdf
import pytest
from PIL import Image

from tests.api import tus
from tests.api.responses import assert_error, assert_rejected, assert_validation_error, data, page
from tests.api.samples import TEXT, docx_file, eicar, noise, pdf, picture
from tests.deployments import Deployments
from tests.inspection.threats.compound_files import compound
from tests.rows import each_row, every_row
from tests.scanning.waiting import until
from tests.service import ApiClient, running_service, unchecked_service

CLEANED: dict[str, Any] = {"remove": ["metadata", "active_content"]}
MAIN = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
WITH_MACROS = b"application/vnd.ms-word.document.macroEnabled.main+xml"
PROJECT = (
    b'<Relationship Id="rIdMacros" Type="http://schemas.microsoft.com/office/2006/relationships/vbaProject" '
    b'Target="vbaProject.bin"/></Relationships>'
)


@cache
def photo() -> bytes:
    """Return a JPEG with a position and a camera."""
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x010F] = "Weir Optics"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 22.0, 11.0), 3: "E", 4: (4.0, 53.0, 7.0)})
    Image.open(io.BytesIO(picture())).convert("RGB").save(out, "JPEG", exif=exif)
    return out.getvalue()


def docm(**parts: bytes) -> bytes:
    """Return a document with macros, and with other parts by their names in the folder `word`."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx_file())) as plain, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in plain.namelist():
            part = plain.read(name)
            if name == "[Content_Types].xml":
                kind = b'<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>'
                part = part.replace(MAIN, WITH_MACROS).replace(b"</Types>", kind)
            if name == "word/_rels/document.xml.rels":
                part = part.replace(b"</Relationships>", PROJECT)
            archive.writestr(name, part)
        archive.writestr("word/vbaProject.bin", compound({"VBA/_VBA_PROJECT": b"\xcc\x61"}))
        for name, part in parts.items():
            archive.writestr(f"word/{name}", part)
    return out.getvalue()


def infected() -> bytes:
    """Return a document with macros and the EICAR file, which is an object in it."""
    return docm(**{"embeddings/oleObject1.bin": eicar()})


def signed_pdf() -> bytes:
    """Return a PDF with an author and a signature that nobody has checked."""
    document = pikepdf.open(io.BytesIO(pdf()))
    document.docinfo["/Author"] = "A. Weir"
    signature = pikepdf.Dictionary(
        Type=pikepdf.Name.Sig,
        Filter=pikepdf.Name("/Adobe.PPKLite"),
        ByteRange=pikepdf.Array([0, 10, 20, 10]),
        Contents=pikepdf.String("00"),
    )
    field = document.make_indirect(pikepdf.Dictionary(FT=pikepdf.Name.Sig, T=pikepdf.String("s"), V=signature))
    document.Root.AcroForm = pikepdf.Dictionary(Fields=pikepdf.Array([field]), SigFlags=3)
    return saved(document)


def locked_pdf() -> bytes:
    return saved(pikepdf.open(io.BytesIO(pdf())), encryption=pikepdf.Encryption(owner="owner", user="secret"))


def saved(document: pikepdf.Pdf, **how: Any) -> bytes:
    out = io.BytesIO()
    document.save(out, **how)
    return out.getvalue()


def download(client: ApiClient, file_id: str) -> bytes:
    return client.service.http.get(data(client.get(f"/files/{file_id}"))["download_url"]).content


def report_of(client: ApiClient, report_id: str) -> dict[str, Any]:
    found: dict[str, Any] = data(client.get(f"/reports/{report_id}"))
    return found


@pytest.mark.engine
def test_what_is_stored_charged_and_reported_is_the_file_without_what_was_taken_out(client: ApiClient) -> None:
    context = client.create_context(sanitise=CLEANED, storage_path_template="{tenant_id}/{sha256}.{extension}")
    sent = client.upload("a.jpg", photo(), context=context, metadata={"case": 7})
    stored = data(sent, 201)
    left = download(client, stored["file_id"])
    assert (b"Weir Optics" in photo(), b"Weir Optics" in left) == (True, False)
    with Image.open(io.BytesIO(left)) as cleaned, Image.open(io.BytesIO(photo())) as original:
        assert cleaned.tobytes() == original.tobytes()
        assert not cleaned.getexif().get_ifd(0x8825)
    digest = hashlib.sha256(left).hexdigest()
    details = data(client.get(f"/files/{stored['file_id']}/metadata"))
    assert (details["checksum"], details["size_bytes"], stored["size_bytes"]) == (
        f"sha256:{digest}",
        len(left),
        len(left),
    )
    assert client.used_bytes(context) == len(left)
    assert any(digest in key for key in client.object_keys())
    report = report_of(client, sent.headers["sluice-report-id"])
    assert (report["file"]["sha256"], report["file"]["size_bytes"]) == (digest, len(left))
    assert report["sanitised"].pop("removed")[:2] == ["gps", "camera"]
    sent_digest = hashlib.sha256(photo()).hexdigest()
    assert report["sanitised"] == {"sent_sha256": sent_digest, "sent_size_bytes": len(photo())}
    assert {check["name"]: check["outcome"] for check in report["checks"]}["sanitise"] == "pass"
    again = client.upload("again.jpg", left, context=context)
    assert download(client, data(again, 201)["file_id"]) == left
    assert report_of(client, again.headers["sluice-report-id"])["sanitised"]["removed"] == []


def test_context_that_does_not_sanitise_stores_every_byte_and_its_reports_have_no_word_of_it(client: ApiClient) -> None:
    context = client.create_context()
    sent = client.upload("a.jpg", photo(), context=context)
    assert download(client, data(sent, 201)["file_id"]) == photo()
    report = report_of(client, sent.headers["sluice-report-id"])
    assert "sanitised" not in report
    assert "sanitise" not in {check["name"] for check in report["checks"]}
    assert "sanitise" not in data(client.get(f"/contexts/{context}"))


def test_policies_judge_what_is_stored_and_malware_and_damage_what_was_sent(client: ApiClient) -> None:
    policies = {"active_content": {"mode": "enforce"}}
    context = client.create_context(sanitise=CLEANED, policies=policies)
    sent = client.upload("letter.docm", docm(), context=context)
    file_id = data(sent, 201)["file_id"]
    assert "word/vbaProject.bin" not in zipfile.ZipFile(io.BytesIO(download(client, file_id))).namelist()
    report = report_of(client, sent.headers["sluice-report-id"])
    assert ("macros" in report["sanitised"]["removed"], report["flags"]) == (True, [])
    only_metadata = client.create_context(sanitise={"remove": ["metadata"]}, policies=policies)
    assert_rejected(client.upload("letter.docm", docm(), context=only_metadata), "active_content")
    assert_rejected(client.upload("letter.docm", infected(), context=context), "virus_detected")
    assert_rejected(client.upload("letter.docm", docm()[:-500], context=context), "corrupt_file")
    assert_rejected(client.upload("letter.jpg", docm(), context=context), "type_mismatch")
    used = client.used_bytes(context)
    digest = hashlib.sha256(photo()).hexdigest()
    data(client.post("/hash-lists", {"entries": [{"digest": digest}]}), 201)
    assert_rejected(client.upload("a.jpg", photo(), context=context), "denied_file")
    assert client.used_bytes(context) == used


def test_infected_file_is_held_even_if_the_malware_was_taken_out(client: ApiClient) -> None:
    context = client.create_context(sanitise=CLEANED, check_modes={"malware": "quarantine"})
    sent = client.upload("letter.docm", infected(), context=context)
    assert data(sent, 201)["outcome"] == "quarantined"
    report = report_of(client, sent.headers["sluice-report-id"])
    (check,) = [each for each in report["checks"] if each["outcome"] == "fail"]
    assert (check["name"], check["mode"], check["code"]) == ("malware", "quarantine", "virus_detected")


def test_file_that_cannot_be_sanitised_is_rejected_with_what_its_sender_can_do(client: ApiClient) -> None:
    context = client.create_context(sanitise=CLEANED)
    cases = (
        ("signed.pdf", signed_pdf(), "signed", "cannot_sanitise.signed"),
        ("locked.pdf", locked_pdf(), "encrypted", "encrypted_file.plain"),
        ("a.zzz", noise(2000), "format", "cannot_sanitise.format"),
    )
    with every_row() as row:
        for name, content, why, key in cases:
            with row(name):
                rejected = client.upload(name, content, context=context)
                assert_rejected(rejected, "cannot_sanitise")
                report = rejected.json()["report"]
                assert (report["message_key"], report["advice"]) == (key, "send_another_file")
                (check,) = [each for each in report["checks"] if each["outcome"] == "fail"]
                assert (check["name"], check["found"], "sanitised" in report) == ("sanitise", why, False)
    assert (client.used_bytes(context), client.object_keys()) == (0, set())
    changing = client.create_context(sanitise={**CLEANED, "signed": "change"})
    file_id = client.store("signed.pdf", signed_pdf(), context=changing)
    assert b"A. Weir" not in download(client, file_id)


def test_dry_run_says_what_would_be_taken_out_and_stores_nothing(client: ApiClient) -> None:
    context = client.create_context(sanitise=CLEANED, policies={"active_content": {"mode": "enforce"}})
    fields = {"files": {"file": ("a.docm", docm())}, "data": {"context": context}}
    report = data(client.request("POST", "/files/validate", **fields))["report"]
    assert (report["outcome"], "macros" in report["sanitised"]["removed"]) == ("accepted", True)
    locked = {"files": {"file": ("a.pdf", locked_pdf())}, "data": {"context": context}}
    report = data(client.request("POST", "/files/validate", **locked))["report"]
    assert (report["reason"], "sanitised" in report) == ("cannot_sanitise", False)
    assert client.used_bytes(context) == 0


def test_quota_needs_room_for_what_is_stored_and_no_more(client: ApiClient) -> None:
    sent = docm(**{"vbaData.bin": noise(700_000)})
    for changes in ({}, {"sanitise": CLEANED}):
        context = client.create_context(storage_quota_mb=1, **changes)
        client.store("a.txt", TEXT * (600_000 // len(TEXT)), context=context)
        before, uploaded = client.used_bytes(context), client.upload("a.docm", sent, context=context)
        if not changes:
            assert_rejected(uploaded, "storage_quota_exceeded")
            assert client.used_bytes(context) == before
        else:
            assert client.used_bytes(context) == before + data(uploaded, 201)["size_bytes"] < 1_048_576


@pytest.mark.engine
def test_original_is_kept_in_quarantine_for_reviewers_and_never_released(client: ApiClient) -> None:
    context = client.create_context(sanitise={**CLEANED, "original": "quarantine"}, storage_quota_mb=1)
    token = data(client.post("/upload-tokens", {"context": context, "max_files": 1}), 201)
    uploaded = client.with_authorization(f"Bearer {token['token']}").upload("a.jpg", photo(), context=context)
    stored = data(uploaded, 201)
    left = download(client, stored["file_id"])
    (original,) = data(client.get("/quarantine"))
    assert (original["sanitised_file_id"], original["reason"]) == (stored["file_id"], "original_kept")
    assert (original["sha256"], original["size_bytes"]) == (hashlib.sha256(photo()).hexdigest(), len(photo()))
    assert client.used_bytes(context) == len(left) + len(photo())
    report = report_of(client, uploaded.headers["sluice-report-id"])
    assert report["sanitised"]["original_file_id"] == original["file_id"]
    kept = report_of(client, original["report_id"])
    assert (kept["outcome"], kept["reason"], "sanitised" in kept) == ("quarantined", "original_kept", False)
    assert [one["report_id"] for one in page(client.get("/reports"))[0]] == [report["report_id"]]
    assert data(client.get("/usage"))["total"]["uploads"] == 1
    shown = data(client.get(f"/upload-tokens/{token['token_id']}"))
    assert (shown["status"], [file["file_id"] for file in shown["files"]]) == ("spent", [stored["file_id"]])
    path = f"/quarantine/{original['file_id']}"
    refused = client.post(f"{path}/release", {"comment": "needed"})
    assert_error(
        refused,
        409,
        "An original cannot be released",
        "The context stores files without what was taken out of this one",
    )
    data(client.post(f"{path}/refuse", {"comment": "not needed"}))
    assert client.used_bytes(context) == len(left)
    client.store("note.txt", TEXT, context=context)
    assert data(client.get("/quarantine")) == []


@pytest.mark.engine
def test_large_resumable_upload_is_sanitised_and_its_original_kept_whole(client: ApiClient) -> None:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x010F] = "Weir Optics"
    Image.effect_noise((2600, 2600), 100).save(out, "JPEG", quality=95, exif=exif)
    sent = out.getvalue()
    assert len(sent) > 5 * 1_048_576
    context = client.create_context(sanitise={"remove": ["metadata"], "original": "quarantine"})
    upload = tus.begin(client, len(sent), context=context, filename="a.jpg")
    upload.patch(sent[:1_000_000], 0)
    file_id = data(upload.patch(sent[1_000_000:], 1_000_000))["file_id"]
    left = download(client, file_id)
    assert (b"Weir Optics" in sent, b"Weir Optics" in left) == (True, False)
    assert client.used_bytes(context) == len(sent) + len(left)
    (original,) = data(client.get("/quarantine"))
    protected = client.get(f"/quarantine/{original['file_id']}/download")
    assert (protected.status_code, original["sha256"]) == (200, hashlib.sha256(sent).hexdigest())


@each_row("point", ["store.done", "store.done:2", "record.done", "record.done:2"])
def test_a_killed_server_leaves_the_original_or_nothing_and_no_file_without_its_original(
    deployments: Deployments, point: str
) -> None:
    deployment, lease = deployments.fresh("sqlite-local"), {"UPLOAD_LEASE_SECONDS": "1", "PURGE_AFTER_DAYS": "0"}
    with unchecked_service(deployment, FAILPOINT=point, **lease) as service:
        client = service.new_client()
        context = client.create_context(sanitise={**CLEANED, "original": "quarantine"})
        with pytest.raises(httpx.TransportError):
            client.upload("a.jpg", photo(), context=context)
    with running_service(deployment, **lease, WORKER_SECONDS="0.2") as service:
        client = ApiClient(service, client.tenant_id, client.authorization)
        originals = 1 if point.startswith("record") else 0
        stored = 1 if point == "record.done:2" else 0
        assert until(lambda: len(client.object_keys()) == originals + stored, 60)
        assert len(data(client.get("/quarantine"))) == originals
        sizes = [file["size_bytes"] for file in page(client.get("/files"))[0]]
        assert len(sizes) == originals + stored
        assert client.used_bytes(context) == sum(sizes)


def test_file_and_its_original_need_room_for_both(client: ApiClient) -> None:
    context = client.create_context(sanitise={**CLEANED, "original": "quarantine"}, storage_quota_mb=1)
    client.store("a.txt", TEXT * (600_000 // len(TEXT)), context=context)
    used = client.used_bytes(context)
    assert_rejected(
        client.upload("a.docm", docm(**{"vbaData.bin": noise(700_000)}), context=context), "storage_quota_exceeded"
    )
    assert (client.used_bytes(context), data(client.get("/quarantine"))) == (used, [])
    assert len(client.object_keys()) == 1


def test_key_and_repeated_file_are_known_by_what_was_sent(client: ApiClient) -> None:
    context = client.create_context(sanitise=CLEANED, policies={"duplicates": {"mode": "enforce"}})
    parts = {"files": {"file": ("a.jpg", photo())}, "data": {"context": context}}
    first, second = (
        client.request("POST", "/files/upload", headers={"Idempotency-Key": "one"}, **parts) for _ in range(2)
    )
    assert data(first, 201) == data(second, 201)
    assert_rejected(client.request("POST", "/files/upload", **parts), "duplicate_file")


def test_context_tells_what_it_sanitises_and_refuses_what_it_cannot(client: ApiClient) -> None:
    shown = data(client.get(f"/contexts/{client.create_context(sanitise=CLEANED)}"))
    assert shown["sanitise"] == {"remove": ["active_content", "metadata"], "original": "drop", "signed": "reject"}
    path = f"/contexts/{shown['context_key']}"
    assert data(client.patch(path, {"description": "Papers"}))["sanitise"] == shown["sanitise"]
    changed = data(client.patch(path, {"sanitise": {"remove": ["pixels"], "signed": "change"}}))
    assert changed["sanitise"] == {"remove": ["pixels"], "original": "drop", "signed": "change"}
    assert "sanitise" not in data(client.patch(path, {"sanitise": None}))
    for wrong, field in (
        ({"remove": []}, "remove"),
        ({"remove": ["metadata", "metadata"]}, "remove"),
        ({"remove": ["gps"]}, "remove.0"),
        ({}, "remove"),
        ({"remove": ["pixels"], "keep": 1}, "keep"),
    ):
        assert_validation_error(client.patch(path, {"sanitise": wrong}), f"sanitise.{field}")
