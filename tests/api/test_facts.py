"""Facts and flags land in the decision log, also of uploads whose checks are off."""

import gzip
from typing import Any

from sluice_inspect.report import Report
from tests.inspection.facts.test_archives import PE, TEXT, tar
from tests.inspection.formats.image_samples import chess_board, encoded, png_header
from tests.inspection.formats.pdf_samples import pdf, text
from tests.inspection.formats.zip_samples import archive
from tests.rows import each_row
from tests.service import ApiClient

OFF = {"reject_corrupt_files": False, "reject_blank_files": False, "scan_for_viruses": False}


def report_of(client: ApiClient, name: str, content: bytes, **rules: Any) -> Report:
    client.upload(name, content, context=client.create_context(**rules))
    return Report.from_stored(client.decisions()[-1]["facts"]["examined"]["report"])


@each_row("rules", [OFF, {}])
def test_facts_are_stored_whether_the_checks_are_on_or_off(client: ApiClient, rules: dict[str, Any]) -> None:
    picture = report_of(client, "a.png", encoded(chess_board(64), "PNG"), **rules)
    assert (picture.facts["width"], picture.facts["pixels"], picture.facts["animated"]) == (64, 4096, False)
    scripted = pdf(text("a"), text("b"), catalog="/OpenAction<</S/JavaScript/JS(x)>>")
    document = report_of(client, "a.pdf", scripted, **rules)
    assert (document.facts["pages"], document.facts["encrypted"], document.flags) == (2, False, ("script.pdf",))
    packed = report_of(client, "a.tar.gz", gzip.compress(tar(("photo.jpg", PE), ("run.vbs", TEXT))), **rules)
    assert (packed.facts["programs"], packed.facts["scripts"]) == (1, 1)
    assert packed.flags == ("archive.disguised", "archive.program", "archive.script")
    table = report_of(client, "a.csv", b"id,name\n1,=cmd|'/c calc'!A0\n", **rules)
    assert table.flags == ("dde", "formula.csv")


def test_rejected_file_keeps_its_facts(client: ApiClient) -> None:
    picture = report_of(client, "a.png", png_header(60_000, 60_000), **OFF | {"reject_corrupt_files": True})
    assert picture.facts["pixels"] == 3_600_000_000
    unsafe = report_of(client, "a.zip", archive(("../a.txt", TEXT), ("b.exe", TEXT)))
    assert (unsafe.facts["members"], unsafe.facts["programs"], unsafe.facts["flags_complete"]) == (2, 1, False)
