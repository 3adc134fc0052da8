"""The rules of a context: each field, at both bounds and beyond. The rest of contexts is in `test_contexts`."""

from typing import Any

import pytest

from tests.api.responses import assert_not_found, assert_validation_error, data
from tests.api.tables import bad_values
from tests.rows import each_row
from tests.service import ApiClient

MINIMAL = {"context_key": "papers", "display_name": "Papers"}
GOOD_VALUES: dict[str, list[Any]] = {
    "display_name": ["x", "x" * 255, "Ünïcødé 文件 🌊"],
    "description": [None, "", "d" * 1000, "🌊" * 1000],
    "allowed_extensions": [[], ["pdf", "png"]],
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
}


@each_row("field, value", [(field, value) for field, values in GOOD_VALUES.items() for value in values])
def test_valid_value_is_kept_on_create_and_change(bare_client: ApiClient, field: str, value: Any) -> None:
    made = f"/contexts/{bare_client.create_context(**{field: value})}"
    assert data(bare_client.get(made))[field] == value
    changed = f"/contexts/{bare_client.create_context()}"
    assert data(bare_client.patch(changed, {field: value}))[field] == value
    assert data(bare_client.get(changed))[field] == value


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
