"""Receipts: signed statements of how a file was judged, which anybody can verify with the public keys."""

import hashlib
from typing import Any

import httpx
import pytest

from sluice.receipts.signing import InvalidReceipt, verify_receipt
from tests.api.responses import assert_not_found, data
from tests.api.samples import TEXT
from tests.service import ApiClient

PATH = "/.well-known/sluice-receipts.json"


def _public_keys(client: ApiClient) -> dict[str, Any]:
    answer = httpx.get(client.service.url + PATH)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    found: dict[str, Any] = answer.json()
    (key,) = found["keys"]
    assert (set(key), key["kty"], key["crv"]) == ({"kty", "crv", "alg", "use", "kid", "x"}, "OKP", "Ed25519")
    return found


def test_a_receipt_states_what_was_judged_and_no_person_and_verifies_until_its_file_is_deleted(
    tenant: ApiClient,
) -> None:
    context = tenant.create_context()
    file_id = tenant.store("note.txt", context=context)
    answer = data(tenant.get(f"/files/{file_id}/receipt"))
    assert answer["keys_path"] == PATH
    stated = verify_receipt(answer["receipt"], _public_keys(tenant))
    assert (stated["kind"], stated["tenant_id"], stated["file_id"]) == ("file", tenant.tenant_id, file_id)
    assert (stated["sha256"], stated["size_bytes"]) == (hashlib.sha256(TEXT).hexdigest(), len(TEXT))
    assert (stated["content_type"], stated["verdict"], stated["reason"]) == ("text/plain", "accepted", None)
    report = data(tenant.get(f"/reports/{stated['report_id']}"))
    assert stated["rules_version"] == report["rules_version"]
    assert stated["engines"]["sluice"] == report["engines"]["sluice"]
    assert report["engines"]["scanner"].startswith(stated["engines"]["scanner"])
    assert stated["decided_at"][:19] == report["created_at"][:19]
    file_id = tenant.store("anna-schmidt.txt", context=context, metadata={"claimant": "Anna Schmidt"})
    receipt = data(tenant.get(f"/files/{file_id}/receipt"))["receipt"]
    words = str(verify_receipt(receipt, _public_keys(tenant))).lower()
    assert "anna" not in words
    assert "key_" not in words
    data(tenant.delete(f"/files/{file_id}"))
    assert_not_found(tenant.get(f"/files/{file_id}/receipt"))


def test_a_changed_receipt_and_one_of_another_service_do_not_verify(tenant: ApiClient) -> None:
    keys = _public_keys(tenant)
    receipt = data(tenant.get(f"/files/{tenant.store(context=tenant.create_context())}/receipt"))["receipt"]
    head, body, signature = receipt.split(".")
    other = "A" if body[20] != "A" else "B"
    for changed in (f"{head}.{body[:20]}{other}{body[21:]}.{signature}", f"{head}.{body}.", "no receipt", ""):
        with pytest.raises(InvalidReceipt):
            verify_receipt(changed, keys)
    with pytest.raises(InvalidReceipt, match="not among the known"):
        verify_receipt(receipt, {"keys": []})
