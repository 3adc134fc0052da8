"""`sluice receipts`: a receipt is verified by its file and the public keys alone, also after the key was changed."""

import json
from pathlib import Path

import httpx
import pytest

from tests.api.samples import TEXT
from tests.cli.commands import Sluice, sluice_in
from tests.service import ApiClient

PATH = "/.well-known/sluice-receipts.json"


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    key = client.create_key("metadata")
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key.text)


def test_verify_prints_what_a_receipt_states(sluice: Sluice, client: ApiClient, tmp_path: Path) -> None:
    file_id = client.store(context=client.create_context())
    receipt, stored, keys = tmp_path / "receipt", tmp_path / "stored", tmp_path / "keys.json"
    receipt.write_text(sluice("receipts", "get", file_id).out)
    stored.write_bytes(TEXT)
    keys.write_bytes(httpx.get(client.service.url + PATH).content)
    by_service = sluice("receipts", "verify", receipt, "--json")
    assert (by_service.code, by_service.json["file_id"]) == (0, file_id)
    offline = sluice.with_settings(URL="http://127.0.0.1:9")
    assert offline("receipts", "verify", receipt, "--key", keys, "--file", stored).code == 0
    response = tmp_path / "response.json"
    response.write_bytes(client.get(f"/files/{file_id}/receipt").content)
    assert offline("receipts", "verify", response, "--key", keys).out.startswith("The receipt is valid.")


def test_verify_refuses_another_file_receipt_and_key(sluice: Sluice, client: ApiClient, tmp_path: Path) -> None:
    receipt, other, keys = tmp_path / "receipt", tmp_path / "other", tmp_path / "keys.json"
    receipt.write_text(sluice("receipts", "get", client.store(context=client.create_context())).out)
    other.write_bytes(b"something else")
    refused = sluice("receipts", "verify", receipt, "--file", other)
    assert (refused.code, "not about the bytes" in refused.error_line) == (1, True)
    keys.write_text(json.dumps({"keys": []}))
    assert "not among the known" in sluice("receipts", "verify", receipt, "--key", keys).error_line
    receipt.write_text(receipt.read_text().strip()[:-6] + "AAAAAA")
    refused = sluice("receipts", "verify", receipt)
    assert (refused.code, "is not valid" in refused.error_line) == (1, True)
    assert sluice("receipts", "verify", tmp_path / "missing").code == 2
    receipt.write_text('{"data": {}}')
    assert sluice("receipts", "verify", receipt).code == 2


def test_a_receipt_verifies_after_the_key_was_changed(client: ApiClient, tmp_path: Path) -> None:
    key = client.create_key("metadata")
    data_dir = str(client.service.deployment.data_dir)
    sluice = sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key.text, DATA_DIR=data_dir)
    file_id = client.store(context=client.create_context())
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(sluice("receipts", "get", file_id).out)
    old = httpx.get(client.service.url + PATH).json()["keys"]
    assert sluice("receipts", "rotate").code == 0
    after.write_text(sluice("receipts", "get", file_id).out)
    new = httpx.get(client.service.url + PATH).json()["keys"]
    assert new[1:] == old
    for receipt in (before, after):
        assert sluice("receipts", "verify", receipt).code == 0
    private = json.loads((Path(data_dir) / "keys" / "receipts.json").read_text())
    assert set(private) == {"private", "keys"}
