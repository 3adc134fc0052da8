"""`sluice erasures`: a person is erased only with --yes, and the receipt that is written verifies."""

from pathlib import Path

import pytest

from tests.api.responses import assert_not_found
from tests.cli.commands import Sluice, sluice_in
from tests.scanning.waiting import until
from tests.service import ApiClient


@pytest.fixture
def sluice(client: ApiClient, tmp_path: Path) -> Sluice:
    key = client.create_key("admin")
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=key.text)


def test_create_erases_and_show_writes_the_receipt(sluice: Sluice, client: ApiClient, tmp_path: Path) -> None:
    file_id = client.store(context=client.create_context(), metadata={"claimant": "Anna"})
    chosen = ("erasures", "create", "--metadata", "claimant=Anna")
    refused = sluice(*chosen)
    assert (refused.code, "Nothing was erased" in refused.error_line) == (1, True)
    job_id = sluice(*chosen, "--yes", "--json").json["job_id"]
    show = ("erasures", "show", job_id)
    assert until(lambda: sluice(*show, "--json").json["status"] == "done", 60)
    receipt = tmp_path / "receipt"
    shown = sluice(*show, "--receipt", receipt)
    assert shown.out.splitlines()[2] == "files    1 erased, 0 kept by a legal hold"
    verified = sluice("receipts", "verify", receipt, "--json").json
    assert [file["file_id"] for file in verified["files"]] == [file_id]
    assert_not_found(client.get(f"/files/{file_id}/metadata"))


def test_create_takes_exactly_one_person(sluice: Sluice) -> None:
    assert sluice("erasures", "create", "--yes").code == 2
    assert sluice("erasures", "create", "--yes", "--end-user", "a", "--uploaded-by", "b").code == 2
    assert sluice("erasures", "create", "--yes", "--metadata", "a").code == 2
