"""File contexts: create, read, list, change. What their rules do to uploads is in `test_upload_rules`."""

from typing import Any

import pytest

from tests.api.answers import data, invalid, not_found, page, refused, without_time
from tests.gate import Gate

FIELDS = {
    "context_id",
    "context_key",
    "tenant_id",
    "display_name",
    "description",
    "allowed_extensions",
    "max_file_size_mb",
    "storage_path_template",
    "reject_blank_files",
    "reject_corrupt_files",
    "scan_for_viruses",
    "upload_rate_limit",
    "storage_quota_mb",
    "storage_used_bytes",
    "status",
    "metadata",
    "storage_config_id",
}
LIST_FIELDS = FIELDS - {"tenant_id", "storage_path_template", "metadata", "storage_config_id"}
MINIMAL = {"context_key": "papers", "display_name": "Papers"}
DEFAULT_TEMPLATE = "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}"


def test_a_minimal_context_gets_the_defaults(newcomer: Gate) -> None:
    created = data(newcomer.post("/contexts", MINIMAL), 201)
    assert created.pop("context_id").startswith("ctx_")
    assert created == {
        "context_key": "papers",
        "tenant_id": newcomer.tenant_id,
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


@pytest.fixture(scope="module")
def papers(lobby: Gate) -> str:
    return lobby.context()


def test_a_status_is_nothing_to_create_with(lobby: Gate) -> None:
    invalid(lobby.post("/contexts", MINIMAL | {"status": "inactive"}), "status")


def test_a_refused_placeholder_is_answered_with_the_known_ones(lobby: Gate) -> None:
    (problem,) = lobby.post("/contexts", MINIMAL | {"storage_path_template": "{week}/{file_id}"}).json()["errors"]
    for known in ("tenant_id", "context_key", "file_id", "yyyy", "mm", "dd", "extension", "sha256"):
        assert f"{{{known}}}" in problem


@pytest.mark.parametrize(("field", "default"), [("metadata", {}), ("storage_path_template", DEFAULT_TEMPLATE)])
def test_null_means_the_default(newcomer: Gate, field: str, default: object) -> None:
    assert data(newcomer.post("/contexts", MINIMAL | {field: None}), 201)[field] == default
    newcomer.patch("/contexts/papers", {"metadata": {"a": 1}, "storage_path_template": "{file_id}"})
    assert data(newcomer.patch("/contexts/papers", {field: None}))[field] == default


def test_a_second_context_of_one_key_is_a_conflict(newcomer: Gate) -> None:
    newcomer.post("/contexts", MINIMAL)
    answer = newcomer.post("/contexts", {"context_key": "papers", "display_name": "Others"})
    assert answer.status_code == 409
    assert "papers" in answer.json()["message"]
    assert data(newcomer.get("/contexts/papers"))["display_name"] == "Papers"


def test_two_tenants_may_use_one_key(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    assert newcomer.stranger().context(context_key="papers") == "papers"


def test_a_context_is_read_as_it_was_created(newcomer: Gate) -> None:
    created = data(newcomer.post("/contexts", MINIMAL), 201)
    assert data(newcomer.get("/contexts/papers")) == created


@pytest.mark.parametrize("key", ["unknown", "UPPER", "a" * 5000, "%00", "..%2f", "%F0%9F%8C%8A"])
def test_an_unknown_context_is_not_found(lobby: Gate, key: str) -> None:
    not_found(lobby.get(f"/contexts/{key}"))
    not_found(lobby.patch(f"/contexts/{key}", {"display_name": "x"}))


def test_another_tenants_context_answers_as_an_unknown_one(newcomer: Gate, lobby: Gate) -> None:
    newcomer.context(context_key="of_another_tenant")
    assert without_time(lobby.get("/contexts/of_another_tenant")) == without_time(lobby.get("/contexts/of_another_nobody"))
    change = {"display_name": "taken"}
    foreign = lobby.patch("/contexts/of_another_tenant", change)
    assert without_time(foreign) == without_time(lobby.patch("/contexts/of_another_nobody", change))
    assert data(newcomer.get("/contexts/of_another_tenant"))["display_name"] == "Tests"


def test_a_change_touches_only_what_it_names(newcomer: Gate) -> None:
    created = data(newcomer.post("/contexts", MINIMAL | {"metadata": {"a": 1}, "description": "old"}), 201)
    changed = data(newcomer.patch("/contexts/papers", {"description": "new"}))
    assert changed == created | {"description": "new"}
    assert data(newcomer.get("/contexts/papers")) == changed


def test_an_empty_change_changes_nothing(newcomer: Gate) -> None:
    created = data(newcomer.post("/contexts", MINIMAL), 201)
    assert data(newcomer.patch("/contexts/papers", {})) == created


def test_a_key_can_not_be_changed(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    invalid(newcomer.patch("/contexts/papers", {"context_key": "others"}), "context_key")


def test_metadata_is_replaced_not_merged(newcomer: Gate) -> None:
    newcomer.context(context_key="papers", metadata={"a": 1, "b": 2})
    assert data(newcomer.patch("/contexts/papers", {"metadata": {"c": 3}}))["metadata"] == {"c": 3}


@pytest.mark.parametrize("field", ["description", "upload_rate_limit", "storage_quota_mb"])
def test_null_clears_what_may_be_null(newcomer: Gate, field: str) -> None:
    filled = {"description": "x", "upload_rate_limit": {"max_uploads": 1, "window_seconds": 1}, "storage_quota_mb": 5}
    newcomer.context(context_key="papers", **filled)
    assert data(newcomer.patch("/contexts/papers", {field: None}))[field] is None


def test_a_context_is_switched_off_and_on(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    for status in ("inactive", "inactive", "active"):
        assert data(newcomer.patch("/contexts/papers", {"status": status}))["status"] == status
        assert data(newcomer.get("/contexts/papers"))["status"] == status


@pytest.mark.parametrize("status", ["archived", "ACTIVE", "", None, 1, True])
def test_another_status_is_refused(lobby: Gate, papers: str, status: Any) -> None:
    invalid(lobby.patch(f"/contexts/{papers}", {"status": status}), "status")


def test_an_empty_bucket_id_resets_to_the_default(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    assert data(newcomer.patch("/contexts/papers", {"storage_config_id": ""}))["storage_config_id"] is None


def test_a_list_item_holds_what_the_interface_lists(newcomer: Gate) -> None:
    newcomer.context(context_key="papers")
    items, pagination = page(newcomer.get("/contexts"))
    assert [set(item) for item in items] == [LIST_FIELDS]
    assert pagination == {"page": 1, "page_size": 20, "total": 1, "total_pages": 1}
    full = data(newcomer.get("/contexts/papers"))
    assert items[0] == {name: full[name] for name in LIST_FIELDS}


def test_pages_hold_every_context_once(newcomer: Gate) -> None:
    keys = {newcomer.context() for _ in range(5)}
    pages = [page(newcomer.get("/contexts", page=number, page_size=2)) for number in (1, 2, 3)]
    assert [len(items) for items, _ in pages] == [2, 2, 1]
    assert sorted(item["context_key"] for items, _ in pages for item in items) == sorted(keys)
    assert {pagination["total_pages"] for _, pagination in pages} == {3}
    assert {pagination["total"] for _, pagination in pages} == {5}


def test_a_list_is_filtered_by_status(newcomer: Gate) -> None:
    on, off = newcomer.context(), newcomer.context()
    newcomer.patch(f"/contexts/{off}", {"status": "inactive"})
    listed = {
        status: [item["context_key"] for item in page(newcomer.get("/contexts", status=status))[0]]
        for status in ("active", "inactive")
    }
    assert listed == {"active": [on], "inactive": [off]}


@pytest.mark.parametrize("status", ["archived", "", "ACTIVE"])
def test_a_list_by_another_status_is_refused(lobby: Gate, status: str) -> None:
    invalid(lobby.get("/contexts", status=status), "status")


def test_a_list_shows_no_other_tenants_contexts(newcomer: Gate) -> None:
    newcomer.stranger().context()
    assert page(newcomer.get("/contexts"))[0] == []


def test_metadata_comes_back_as_it_was_sent(newcomer: Gate) -> None:
    sent = {"z": 1, "a": {"ü": [1, 2.5, -0.0, 10**15, None, True]}, "zero": "a\u0000b", "wave": "🌊", "big": 2**63}
    newcomer.context(context_key="papers", metadata=sent)
    assert data(newcomer.get("/contexts/papers"))["metadata"] == sent


def test_a_context_without_a_body_is_refused(lobby: Gate) -> None:
    refused_body = lobby.ask("POST", "/contexts", headers={"Content-Type": "application/json"})
    invalid(refused_body, "body")


def test_a_routed_bucket_of_another_tenant_is_unknown(s3: object, gate: Gate) -> None:
    foreign = gate.stranger().bucket()["config_id"]
    answer = gate.post("/contexts", MINIMAL | {"storage_config_id": foreign})
    unknown = gate.post("/contexts", MINIMAL | {"storage_config_id": "bkt_unknown"})
    invalid(answer, "storage_config_id")
    assert without_time(answer)[::2] == without_time(unknown)[::2]
    refused(gate.get("/contexts/papers"), 404, "Resource not found", "Not found")
