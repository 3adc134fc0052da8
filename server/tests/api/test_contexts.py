"""Contexts: create, read, list, change, and each field at its bounds. What rules do to uploads: `test_upload_rules`."""

import base64
import zlib
from typing import Any

import pytest

from tests.api.responses import (
    assert_error,
    assert_not_found,
    assert_validation_error,
    bad_values,
    data,
    page,
    without_time,
)
from tests.api.samples import picture
from tests.rows import each_row
from tests.service import ApiClient

FIELDS = {
    *("context_id", "context_key", "tenant_id", "display_name", "description", "allowed_extensions"),
    *("max_file_size_mb", "storage_path_template", "reject_blank_files", "reject_corrupt_files", "scan_for_viruses"),
    *("upload_rate_limit", "storage_quota_mb", "storage_used_bytes", "status", "metadata", "storage_config_id"),
}
LIST_FIELDS = FIELDS - {"tenant_id", "storage_path_template", "metadata", "storage_config_id"}
MINIMAL = {"context_key": "papers", "display_name": "Papers"}
DEFAULT_TEMPLATE = "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}"


@pytest.mark.engine
def test_minimal_context_gets_the_defaults_and_no_second_one_of_its_tenant_the_key(bare_client: ApiClient) -> None:
    created = data(bare_client.post("/contexts", MINIMAL), 201)
    response = bare_client.post("/contexts", {"context_key": "papers", "display_name": "Others"})
    assert response.status_code == 409
    assert "papers" in response.json()["message"]
    assert data(bare_client.get("/contexts/papers")) == created
    assert bare_client.other_tenant_client().create_context(context_key="papers") == "papers"
    assert created.pop("context_id").startswith("ctx_")
    assert created == {
        "context_key": "papers",
        "tenant_id": bare_client.tenant_id,
        "display_name": "Papers",
        "description": None,
        "allowed_extensions": [],
        "max_file_size_mb": 10,
        "storage_path_template": DEFAULT_TEMPLATE,
        "reject_blank_files": True,
        "reject_corrupt_files": True,
        "scan_for_viruses": True,
        "upload_rate_limit": None,
        "storage_quota_mb": None,
        "storage_used_bytes": 0,
        "status": "active",
        "metadata": {},
        "storage_config_id": None,
    }


def test_refused_creation_names_what_is_wrong_and_an_unknown_context_is_not_found(shared_client: ApiClient) -> None:
    assert_validation_error(shared_client.post("/contexts", MINIMAL | {"status": "inactive"}), "status")
    without_body = shared_client.request("POST", "/contexts", headers={"Content-Type": "application/json"})
    assert_validation_error(without_body, "body")
    response = shared_client.post("/contexts", MINIMAL | {"storage_path_template": "{week}/{file_id}"})
    (problem,) = response.json()["errors"]
    for known in ("tenant_id", "context_key", "file_id", "yyyy", "mm", "dd", "extension", "sha256"):
        assert f"{{{known}}}" in problem
    for key in ["unknown", "UPPER", "a" * 5000, "%00", "..%2f", "%F0%9F%8C%8A"]:
        assert_not_found(shared_client.get(f"/contexts/{key}"))
        assert_not_found(shared_client.patch(f"/contexts/{key}", {"display_name": "x"}))


OPTIONAL = {
    "metadata": ({"a": 1}, None, {}),
    "storage_path_template": ("{file_id}", None, DEFAULT_TEMPLATE),
    "description": ("x", None, None),
    "upload_rate_limit": ({"max_uploads": 1, "window_seconds": 1}, None, None),
    "storage_quota_mb": (5, None, None),
}


def test_change_touches_only_the_named_fields_and_resets_optional_ones(bare_client: ApiClient) -> None:
    created = data(bare_client.post("/contexts", MINIMAL | {"metadata": {"a": 1, "b": 2}, "description": "old"}), 201)
    assert data(bare_client.patch("/contexts/papers", {})) == created
    changed = data(bare_client.patch("/contexts/papers", {"description": "new"}))
    assert changed == created | {"description": "new"}
    assert data(bare_client.get("/contexts/papers")) == changed
    assert data(bare_client.patch("/contexts/papers", {"metadata": {"c": 3}}))["metadata"] == {"c": 3}
    assert_validation_error(bare_client.patch("/contexts/papers", {"context_key": "others"}), "context_key")
    for field, (filled, empty, default) in OPTIONAL.items():
        path = f"/contexts/{bare_client.create_context(**{field: empty})}"
        assert data(bare_client.get(path))[field] == default
        assert data(bare_client.patch(path, {field: filled}))[field] == filled
        assert data(bare_client.patch(path, {field: empty}))[field] == default
    assert data(bare_client.patch(path, {"storage_config_id": ""}))["storage_config_id"] is None


def test_context_is_inactive_until_it_is_active_again_and_listed_by_its_status(bare_client: ApiClient) -> None:
    bare_client.other_tenant_client().create_context()
    contexts = {"active": bare_client.create_context(), "inactive": bare_client.create_context()}
    path = f"/contexts/{contexts['inactive']}"
    for status in ("inactive", "inactive", "active", "inactive"):
        assert data(bare_client.patch(path, {"status": status}))["status"] == status
        assert data(bare_client.get(path))["status"] == status
    for unknown in ("archived", "ACTIVE", "", None, 1, True):
        assert_validation_error(bare_client.patch(path, {"status": unknown}), "status")
    for status, context in contexts.items():
        listed = page(bare_client.get("/contexts", status=status))[0]
        assert [item["context_key"] for item in listed] == [context]
    for wanted in ("archived", "", "ACTIVE"):
        assert_validation_error(bare_client.get("/contexts", status=wanted), "status")


@pytest.mark.engine
def test_paging_returns_every_context_exactly_once_with_the_fields_of_the_interface(bare_client: ApiClient) -> None:
    sent = {"z": 1, "a": {"ü": [1, 2.5, -0.0, 10**15, None, True]}, "zero": "a\u0000b", "wave": "🌊", "big": 2**63}
    bare_client.create_context(context_key="papers", metadata=sent)
    items, pagination = page(bare_client.get("/contexts"))
    assert pagination == {"page": 1, "page_size": 20, "total": 1, "total_pages": 1}
    full = data(bare_client.get("/contexts/papers"))
    assert full["metadata"] == sent
    assert items == [{name: full[name] for name in LIST_FIELDS}]
    keys = {"papers", *(bare_client.create_context() for _ in range(4))}
    pages = [page(bare_client.get("/contexts", page=number, page_size=2)) for number in (1, 2, 3)]
    assert [len(items) for items, _ in pages] == [2, 2, 1]
    assert sorted(item["context_key"] for items, _ in pages for item in items) == sorted(keys)
    assert {(pagination["total_pages"], pagination["total"]) for _, pagination in pages} == {(3, 5)}


def test_bucket_of_another_tenant_is_refused_as_unknown(s3: object, client: ApiClient) -> None:
    foreign = client.other_tenant_client().add_bucket()["config_id"]
    responses = [client.post("/contexts", MINIMAL | {"storage_config_id": each}) for each in (foreign, "bkt_unknown")]
    for response in responses:
        assert_validation_error(response, "storage_config_id")
    assert without_time(responses[0])[::2] == without_time(responses[1])[::2]
    assert_error(client.get("/contexts/papers"), 404, "Resource not found", "Not found")


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


DAMAGED_LOGO = picture()[:60] + b"\0" + picture()[61:]

GOOD_VALUES: dict[str, list[Any]] = {
    "display_name": ["x", "x" * 255, "Ünïcødé 文件 🌊"],
    "description": [None, "", "d" * 1000, "🌊" * 1000],
    "allowed_extensions": [[], ["pdf", "png"], ["tar.gz"]],
    "max_file_size_mb": [1, 500],
    "storage_path_template": ["{yyyy}/{mm}/{dd}/{sha256}/{file_id}{extension}", "a" * 500, "plain"],
    "reject_blank_files": [False],
    "reject_corrupt_files": [False],
    "scan_for_viruses": [False],
    "upload_rate_limit": [
        *(None, {"max_uploads": 1, "window_seconds": 1}, {"max_uploads": 10000, "window_seconds": 3600})
    ],
    "storage_quota_mb": [None, 1, 10485760],
    "metadata": [{}, {"a": [1, 2.5, None, True, {"b": "ü"}], "": "empty name"}],
    "storage_config_id": [None],
    "page_name": ["x", "Muster Insurance 文件"],
    "page_sentence": ["s" * 300],
    "page_color": ["#1f6feb"],
    "page_logo": [in_base64(picture())],
}


@each_row("field, value", [(field, value) for field, values in GOOD_VALUES.items() for value in values])
def test_valid_value_is_kept_on_create_and_change(bare_client: ApiClient, field: str, value: Any) -> None:
    made = f"/contexts/{bare_client.create_context(**{field: value})}"
    assert data(bare_client.get(made))[field] == value
    changed = f"/contexts/{bare_client.create_context()}"
    assert data(bare_client.patch(changed, {field: value}))[field] == value
    assert data(bare_client.get(changed))[field] == value


def test_logo_is_kept_without_what_is_not_the_picture_and_a_colour_in_lower_case(bare_client: ApiClient) -> None:
    text = b"tEXtComment\0made by Ada"
    chunk = (len(text) - 4).to_bytes(4) + text + zlib.crc32(text).to_bytes(4)
    sent = picture()[:33] + chunk + picture()[33:] + b"<script>"
    path = f"/contexts/{bare_client.create_context()}"
    shown = data(bare_client.patch(path, {"page_logo": f"data:image/png;base64,{in_base64(sent)}"}))
    assert shown["page_logo"] == in_base64(picture())
    assert data(bare_client.patch(path, {"page_color": "#1F6FEB"}))["page_color"] == "#1f6feb"
    assert "page_logo" not in data(bare_client.patch(path, {"page_logo": None}))


RATE = {"max_uploads": 1, "window_seconds": 1}
BAD_VALUES = [
    *bad_values("display_name", "", "x" * 256, None, 7, ["x"], "a\u0000b"),
    *bad_values("description", "d" * 1001, 7, False, "a\u0000b"),
    *bad_values("allowed_extensions", "pdf", {}, 7, None),
    *bad_values("allowed_extensions", [7], named="allowed_extensions.0"),
    *bad_values("allowed_extensions", ["pdf", None], named="allowed_extensions.1"),
    *bad_values("max_file_size_mb", 0, -1, 501, 10**30, "10", 1.5, True, None, []),
    *bad_values("storage_path_template", "t" * 501, "", 7, False, "{nope}", "{", "}", "{}", "{{file_id}}"),
    *bad_values("storage_path_template", "{file_id!r}", "{file_id.__class__}", "{file_id:>9}"),
    *bad_values("storage_path_template", "/a", "a//b", "../a", "a/./b", "a\u0000b"),
    *bad_values("storage_path_template", "_incoming/{file_id}", "_exports/a-{file_id}", ".sluice-probe"),
    *bad_values("reject_blank_files", "true", 1, None),
    *bad_values("reject_corrupt_files", "true", 1, None),
    *bad_values("scan_for_viruses", "true", 1, None),
    *bad_values("upload_rate_limit", [], "10/s", 7, True),
    *bad_values("upload_rate_limit", {"max_uploads": 5}, named="upload_rate_limit.window_seconds"),
    *bad_values("upload_rate_limit", {"window_seconds": 5}, named="upload_rate_limit.max_uploads"),
    *bad_values("upload_rate_limit", RATE | {"burst": 2}, named="upload_rate_limit.burst"),
    *[
        ("upload_rate_limit", RATE | {part: value}, f"upload_rate_limit.{part}")
        for part, most in (("max_uploads", 10000), ("window_seconds", 3600))
        for value in (0, -1, most + 1, "5", 1.5, True, None)
    ],
    *bad_values("storage_quota_mb", 0, -1, 10485761, "1", 1.5, True),
    *bad_values("metadata", [], "x", 7, True),
    *bad_values("storage_config_id", 7, [], "bkt_unknown", "x" * 300),
    *bad_values("page_name", "", " ", "x" * 101, "a\nb", 7),
    *bad_values("page_sentence", "", "x" * 301, "a\u0000b"),
    *bad_values("page_color", "", "red", "#fff", "#12345g", "#1234567", "#١٢٣٤٥٦"),
    *bad_values("page_logo", "", "no base64", in_base64(picture("JPEG")), in_base64(DAMAGED_LOGO)),
    *bad_values("page_logo", in_base64(picture(size=(1025, 8))), in_base64(picture()[:-12]), "A" * 40_001),
    *bad_values("page_logo", in_base64(picture() + bytes(24_577))),
    *bad_values("surprise", 1),
    *bad_values("context_id", "ctx_1"),
    *bad_values("tenant_id", "ten_1"),
    *bad_values("storage_used_bytes", 0),
]


@pytest.fixture(scope="module")
def papers(shared_client: ApiClient) -> str:
    return shared_client.create_context()


@each_row("field, value, named", BAD_VALUES)
@pytest.mark.asvs("15.3.3", "15.3.5")
def test_invalid_value_is_refused_on_creation_and_change(
    shared_client: ApiClient, papers: str, field: str, value: Any, named: str
) -> None:
    assert_validation_error(shared_client.post("/contexts", MINIMAL | {"context_key": "refused", field: value}), named)
    assert_not_found(shared_client.get("/contexts/refused"))
    before = data(shared_client.get(f"/contexts/{papers}"))
    assert_validation_error(shared_client.patch(f"/contexts/{papers}", {field: value}), named)
    assert data(shared_client.get(f"/contexts/{papers}")) == before


WRONG_KEYS: list[Any] = [
    *("", "z" * 101, "1a", "_a", "A", "aB", "a-b", "a b", "a.b", "é", "a\n", "a/b", None, 7, ["a"], True),
]


def test_context_key_has_small_letters_digits_and_underscores_after_a_letter(bare_client: ApiClient) -> None:
    bodies = {key: {"context_key": key, "display_name": "x"} for key in ("a", "a1", "a_b_", "z" * 100)}
    for key, body in bodies.items():
        assert data(bare_client.post("/contexts", body), 201)["context_key"] == key
    for wrong in WRONG_KEYS:
        body = {"context_key": wrong, "display_name": "x"}
        assert_validation_error(bare_client.post("/contexts", body), "context_key")


def test_all_missing_and_wrong_fields_are_named_together(shared_client: ApiClient) -> None:
    assert_validation_error(shared_client.post("/contexts", {"context_key": "papers"}), "display_name")
    assert_validation_error(shared_client.post("/contexts", {"display_name": "Papers"}), "context_key")
    response = shared_client.post("/contexts", {"display_name": "", "max_file_size_mb": 0, "surprise": 1})
    assert_validation_error(response, "context_key", "display_name", "max_file_size_mb", "surprise")
