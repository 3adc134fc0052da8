"""`sluice reports`: read the reports of uploads from a running service."""

from pathlib import Path

import pytest

from sluice.messages import render
from tests.api.responses import data
from tests.api.samples import TEXT
from tests.cli.commands import Sluice, sluice_in
from tests.rows import each_row
from tests.servers import free_port
from tests.service import ApiClient


@pytest.fixture
def reports(client: ApiClient, tmp_path: Path) -> Sluice:
    """The command with the URL of the service and an API key with the scope metadata."""
    return sluice_in(tmp_path / "home", URL=client.service.url, API_KEY=client.create_key("metadata").text)


@pytest.fixture
def uploaded(client: ApiClient) -> tuple[str, str, str]:
    """The context, and the reports of an accepted upload and of a rejected one after it."""
    context = client.create_context()
    accepted = data(client.upload("good.txt", TEXT, context=context), 201)["report_id"]
    rejected = client.upload("empty.txt", b"", context=context).headers["sluice-report-id"]
    return context, accepted, rejected


def test_list_prints_the_newest_report_first(reports: Sluice, uploaded: tuple[str, str, str]) -> None:
    context, accepted, rejected = uploaded
    result = reports("reports", "list")
    assert (result.code, result.err) == (0, "")
    heads, first, second = result.out.splitlines()
    assert heads.split() == ["WHEN", "OUTCOME", "REASON", "CONTEXT", "FILE", "BY", "REPORT"]
    assert first.split()[2:] == ["rejected", "blank_document", context, "empty.txt", "tests", rejected]
    assert second.split()[2:] == ["accepted", "-", context, "good.txt", "tests", accepted]


@each_row(
    "options, number",
    [
        (("--outcome", "rejected"), 1),
        (("--reason", "blank_document"), 1),
        (("--filename", "empty"), 1),
        (("--outcome", "rejected", "--since", "7d", "--until", "2999-01-01"), 1),
        (("--limit", "1"), 1),
        (("--context", "other"), 0),
        (("--uploaded-by", "nobody"), 0),
        (("--since", "2999-01-01T00:00:00Z"), 0),
        (("--until", "1h"), 0),
    ],
)
def test_list_prints_the_reports_asked_for(
    reports: Sluice, uploaded: tuple[str, str, str], options: tuple[str, ...], number: int
) -> None:
    context, _, rejected = uploaded
    own = () if "--context" in options else ("--context", context)
    result = reports("reports", "list", *own, "--json", *options)
    assert (result.code, [row["report_id"] for row in result.rows]) == (0, [rejected][:number])


def test_list_reads_further_pages(reports: Sluice, client: ApiClient) -> None:
    context = client.create_context(allowed_extensions=["pdf"])
    for number in range(103):
        client.upload(f"{number}.txt", TEXT, context=context)
    assert len(reports("reports", "list", "--json", "--limit", "1000").rows) == 103
    assert len(reports("reports", "list", "--json", "--limit", "102").rows) == 102


def test_show_prints_the_sentence_and_each_check_or_json(reports: Sluice, uploaded: tuple[str, str, str]) -> None:
    context, accepted, rejected = uploaded
    result = reports("reports", "show", rejected)
    assert (result.code, result.err) == (0, "")
    assert f"report     {rejected}\n" in result.out
    assert "outcome    rejected: blank_document\n" in result.out
    assert f"sentence   {render('blank_document.empty', {}, 'en')}\n" in result.out
    assert f"context    {context}, rules 1\n" in result.out
    assert ["blank", "fail", "enforce"] in [line.split()[:3] for line in result.out.splitlines()]
    (report,) = reports("reports", "show", accepted, "--json").rows
    assert (report["report_id"], report["outcome"]) == (accepted, "accepted")


def test_what_hides_the_reports_is_named(reports: Sluice, client: ApiClient) -> None:
    result = reports("reports", "show", "rep_1/../x")
    assert (result.code, result.out, result.error_line) == (5, "", "The service has no report rep_1/../x.")
    for option, value, word in (("--since", "yesterday", "7d"), ("--reason", "nope", "reason")):
        result = reports("reports", "list", option, value)
        assert (result.code, result.out) == (2, ""), option
        assert word in result.error_line
    result = reports.with_settings(API_KEY=client.create_key("upload").text)("reports", "list")
    assert (result.code, result.out) == (4, "")
    assert result.error_line == "Metadata scope required (Insufficient permissions)."
    url = f"http://127.0.0.1:{free_port()}"
    result = reports("reports", "list", "--url", url)
    assert result.code == 6
    assert result.error_line.startswith(f"No service responds at {url}")
