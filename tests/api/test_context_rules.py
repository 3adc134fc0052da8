"""The rules that a context may be given: each field, at both edges and beyond. What else is done with contexts is in `test_contexts`."""

from typing import Any

import pytest

from tests.api.answers import data, invalid, not_found
from tests.api.tables import bad, show
from tests.gate import Gate

MINIMAL = {"context_key": "papers", "display_name": "Papers"}


GOOD_VALUES: list[tuple[str, Any]] = [
    ("display_name", "x"),
    ("display_name", "x" * 255),
    ("display_name", "Ünïcødé 文件 🌊"),
    ("description", None),
    ("description", ""),
    ("description", "d" * 1000),
    ("description", "🌊" * 1000),
    ("allowed_extensions", []),
    ("allowed_extensions", ["pdf", "png"]),
    ("max_file_size_mb", 1),
    ("max_file_size_mb", 500),
    ("storage_path_template", "{yyyy}/{mm}/{dd}/{sha256}/{file_id}{extension}"),
    ("storage_path_template", "a" * 500),
    ("storage_path_template", "plain"),
    ("reject_blank_files", False),
    ("reject_corrupt_files", False),
    ("scan_for_viruses", False),
    ("upload_rate_limit", None),
    ("upload_rate_limit", {"max_uploads": 1, "window_seconds": 1}),
    ("upload_rate_limit", {"max_uploads": 10000, "window_seconds": 3600}),
    ("storage_quota_mb", None),
    ("storage_quota_mb", 1),
    ("storage_quota_mb", 10485760),
    ("metadata", {}),
    ("metadata", {"a": [1, 2.5, None, True, {"b": "ü"}], "": "empty name"}),
    ("storage_config_id", None),
]


@pytest.mark.parametrize(("field", "value"), GOOD_VALUES, ids=show)
def test_a_good_value_is_kept_on_create(newcomer: Gate, field: str, value: Any) -> None:
    assert data(newcomer.post("/contexts", MINIMAL | {field: value}), 201)[field] == value
    assert data(newcomer.get("/contexts/papers"))[field] == value


@pytest.mark.parametrize(("field", "value"), GOOD_VALUES, ids=show)
def test_a_good_value_is_kept_on_change(newcomer: Gate, field: str, value: Any) -> None:
    newcomer.context(context_key="papers")
    assert data(newcomer.patch("/contexts/papers", {field: value}))[field] == value
    assert data(newcomer.get("/contexts/papers"))[field] == value


BAD_VALUES = [
    *bad("display_name", "", "x" * 256, None, 7, ["x"], "a\u0000b"),
    *bad("description", "d" * 1001, 7, False, "a\u0000b"),
    *bad("allowed_extensions", "pdf", {}, 7, None),
    *bad("allowed_extensions", [7], named="allowed_extensions.0"),
    *bad("allowed_extensions", ["pdf", None], named="allowed_extensions.1"),
    *bad("max_file_size_mb", 0, -1, 501, 10**30, "10", 1.5, True, None, []),
    *bad("storage_path_template", "t" * 501, "", 7, False),
    *bad("storage_path_template", "{nope}", "{", "}", "{}", "{{file_id}}", "{file_id!r}", "{file_id.__class__}", "{file_id:>9}"),
    *bad("storage_path_template", "/a", "a//b", "../a", "a/./b", "a\u0000b"),
    *bad("reject_blank_files", "true", 1, None),
    *bad("reject_corrupt_files", "true", 1, None),
    *bad("scan_for_viruses", "true", 1, None),
    *bad("upload_rate_limit", [], "10/s", 7, True),
    *bad("upload_rate_limit", {"max_uploads": 5}, named="upload_rate_limit.window_seconds"),
    *bad("upload_rate_limit", {"window_seconds": 5}, named="upload_rate_limit.max_uploads"),
    *bad("upload_rate_limit", {"max_uploads": 1, "window_seconds": 1, "burst": 2}, named="upload_rate_limit.burst"),
    *[
        ("upload_rate_limit", {"max_uploads": 5, "window_seconds": 5} | {part: value}, f"upload_rate_limit.{part}")
        for part, most in (("max_uploads", 10000), ("window_seconds", 3600))
        for value in (0, -1, most + 1, "5", 1.5, True, None)
    ],
    *bad("storage_quota_mb", 0, -1, 10485761, "1", 1.5, True),
    *bad("metadata", [], "x", 7, True),
    *bad("storage_config_id", 7, [], "bkt_unknown", "x" * 300),
    *bad("surprise", 1),
    *bad("context_id", "ctx_1"),
    *bad("tenant_id", "ten_1"),
    *bad("storage_used_bytes", 0),
]


@pytest.mark.parametrize(("field", "value", "named"), BAD_VALUES, ids=show)
@pytest.mark.asvs("15.3.3")
def test_a_bad_value_is_refused_on_create(lobby: Gate, field: str, value: Any, named: str) -> None:
    invalid(lobby.post("/contexts", MINIMAL | {"context_key": "refused", field: value}), named)
    not_found(lobby.get("/contexts/refused"))


@pytest.fixture(scope="module")
def papers(lobby: Gate) -> str:
    return lobby.context()


@pytest.mark.parametrize(("field", "value", "named"), BAD_VALUES, ids=show)
@pytest.mark.asvs("15.3.5")
def test_a_bad_value_is_refused_on_change(lobby: Gate, papers: str, field: str, value: Any, named: str) -> None:
    before = data(lobby.get(f"/contexts/{papers}"))
    invalid(lobby.patch(f"/contexts/{papers}", {field: value}), named)
    assert data(lobby.get(f"/contexts/{papers}")) == before


@pytest.mark.parametrize("key", ["a", "a1", "a_b_", "z" * 100])
def test_a_good_key_is_taken(newcomer: Gate, key: str) -> None:
    assert data(newcomer.post("/contexts", {"context_key": key, "display_name": "x"}), 201)["context_key"] == key


@pytest.mark.parametrize(
    "key", ["", "z" * 101, "1a", "_a", "A", "aB", "a-b", "a b", "a.b", "é", "a\n", "a/b", None, 7, ["a"], True]
)
def test_a_bad_key_is_refused(lobby: Gate, key: Any) -> None:
    invalid(lobby.post("/contexts", {"context_key": key, "display_name": "x"}), "context_key")


@pytest.mark.parametrize("field", ["context_key", "display_name"])
def test_a_required_field_is_missed(lobby: Gate, field: str) -> None:
    invalid(lobby.post("/contexts", {name: value for name, value in MINIMAL.items() if name != field}), field)


def test_every_problem_is_named_at_once(lobby: Gate) -> None:
    answer = lobby.post("/contexts", {"display_name": "", "max_file_size_mb": 0, "surprise": 1})
    invalid(answer, "context_key", "display_name", "max_file_size_mb", "surprise")
