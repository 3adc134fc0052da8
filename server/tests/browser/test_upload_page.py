"""A few proofs in a real browser for every run of the suite; `make browsers` runs those of the other modules too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.api.responses import data
from tests.browser.chromium import expect
from tests.browser.conftest import EXE, NOTE, IssueToken, watch_console
from tests.browser.sites import Site
from tests.service import ApiClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture
def plain_page(browser: Browser) -> Any:
    context = browser.new_context(java_script_enabled=False, locale="de-DE")
    page = context.new_page()
    errors = watch_console(page)
    yield page
    context.close()
    assert errors == []


def test_form_without_script_shows_each_verdict(plain_page: Page, issue: IssueToken, client: ApiClient) -> None:
    token = issue()
    plain_page.goto(token["form_url"])
    plain_page.set_input_files("#file", [NOTE, EXE])
    plain_page.click("button")
    shown = plain_page.locator(".results li")
    expect(shown).to_have_count(2)
    expect(shown.nth(0)).to_contain_text("Vielen Dank, die Datei ist angekommen.")
    expect(shown.nth(1)).to_contain_text("Dateien vom Typ EXE werden hier nicht angenommen.")
    expect(plain_page.locator(".facts")).to_contain_text("2 Dateien können noch gesendet werden")
    found = data(client.get(f"/upload-tokens/{token['token_id']}"))
    assert [file["outcome"] for file in found["files"]] == ["accepted", "rejected"]


def test_page_with_script_sends_files_by_the_element(page: Page, issue: IssueToken) -> None:
    page.goto(issue()["form_url"])
    page.locator("label:has(strong) input").set_input_files([NOTE, EXE])
    rows = page.locator("sluice-upload li")
    expect(rows.nth(0)).to_contain_text("Thank you, this file has arrived.")
    expect(page.locator(".facts")).to_contain_text("2 files can still be sent")
    expect(rows.nth(1)).to_contain_text("Files of the kind EXE are not accepted here.")


def test_form_leads_back_to_the_application(plain_page: Page, app: Site, issue: IssueToken) -> None:
    app.show("<h1>Received</h1>", "/ok")
    token = issue(redirect_ok=app.origin.replace("127.0.0.1", "localhost") + "/ok")
    plain_page.goto(token["form_url"])
    plain_page.set_input_files("#file", NOTE)
    plain_page.click("button")
    expect(plain_page.locator("h1")).to_have_text("Received")
    assert "file_id=file_" in plain_page.url


def test_form_on_a_page_of_another_origin_needs_no_list(plain_page: Page, app: Site, issue: IssueToken) -> None:
    url = issue()["form_url"]
    field = '<label>Letter <input type="file" name="file"></label>'
    form = f'<form method="post" enctype="multipart/form-data" action="{url}">{field}<button>Send</button></form>'
    plain_page.goto(app.show(form, "/form"))
    plain_page.set_input_files("input", NOTE)
    plain_page.click("button")
    expect(plain_page.locator(".results li")).to_contain_text("Vielen Dank, die Datei ist angekommen.")
