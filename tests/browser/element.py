"""`<sluice-upload>` on the page of an application: what it shows, announces and reports, by mouse, keyboard and script."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

from sluice.messages import catalogue_of
from tests.api.responses import data
from tests.browser.conftest import EXE, NOTE, PACKAGES, IssueToken, renamed, require_packages
from tests.browser.sites import Site
from tests.service import ApiClient

LARGE: FilePayload = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a line of text, and more\n" * 80_000}
CHOOSER = "label:has(strong) input"


def open_element(page: Page, app: Site, token: dict[str, Any], **attributes: str) -> None:
    """Open a page of the application with the element; what it reports is kept in `events`."""
    service = token["upload_url"].removesuffix("/api/v1/files/upload")
    named = {"token": token["token"], "endpoint": token["upload_url"]} | attributes
    written = " ".join(f'{name.replace("_", "-")}="{value}"' for name, value in named.items())
    page.goto(
        app.show(
            f"""<main><h1>Your claim</h1><sluice-upload {written}>no script</sluice-upload></main>
            <script type="module" src="{service}/static/sluice-upload.js"></script>
            <script>
              window.events = [];
              for (const name of ["stored", "rejected", "failed"])
                addEventListener(`sluice-upload:${{name}}`, ({{detail}}) =>
                  events.push({{...detail, name, file: detail.file.name}}));
            </script>"""
        )
    )
    expect(page.locator(CHOOSER)).to_be_attached()


def row(page: Page, name: str) -> Any:
    return page.locator("sluice-upload li", has_text=name)


def throttle(page: Page) -> Callable[[int], None]:
    """Return what sets how many bytes a second the page sends; -1 is no limit."""
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")

    def set_speed(bytes_per_second: int) -> None:
        speeds = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_per_second}
        network.send("Network.emulateNetworkConditions", speeds)

    return set_speed


def violations(page: Page) -> list[str]:
    """Return what axe finds on the page."""
    page.evaluate((PACKAGES / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def test_files_get_the_sentence_of_the_answer_and_an_event_each(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]))
    page.locator(CHOOSER).set_input_files([NOTE, EXE])
    expect(row(page, "note.txt")).to_contain_text("Thank you, this file has arrived.")
    expect(row(page, "setup.exe")).to_contain_text("Files of the kind EXE are not accepted here.")
    stored, rejected = page.evaluate("events")
    assert (stored["name"], stored["file"]) == ("stored", "note.txt")
    assert stored["fileId"].startswith("file_")
    assert (rejected["name"], rejected["reason"]) == ("rejected", "extension_not_allowed")
    assert rejected["reportId"].startswith("rep_")


def test_words_and_sentences_are_in_the_language_of_the_element(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]), lang="ja")
    expect(page.locator("label strong")).to_have_text(catalogue_of("ja").page["choose"])
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text(catalogue_of("ja").messages["accepted.plain"])


def test_progress_moves_in_many_steps_and_ends_in_being_checked(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]))
    page.evaluate(
        """() => {
          window.steps = [];
          window.states = [];
          const list = document.querySelector("sluice-upload").shadowRoot.querySelector("ul");
          new MutationObserver(() => {
            const bar = list.querySelector("progress"), state = list.querySelector("li").className;
            if (bar && steps.at(-1) !== bar.value) steps.push(bar.value);
            if (states.at(-1) !== state) states.push(state);
          }).observe(list, {subtree: true, childList: true, attributes: true});
        }"""
    )
    throttle(page)(1_000_000)
    page.locator(CHOOSER).set_input_files(LARGE)
    expect(row(page, "large.txt")).to_contain_text("Thank you, this file has arrived.", timeout=30_000)
    steps = page.evaluate("steps")
    assert len(steps) >= 10
    assert steps == sorted(steps)
    assert steps[-1] == 100
    assert page.evaluate("states")[-3:] == ["uploading", "checking", "stored"]


def test_upload_is_canceled_and_tried_again_by_keyboard(
    page: Page, app: Site, issue: IssueToken, client: ApiClient
) -> None:
    token = issue(allowed_origins=[app.origin])
    open_element(page, app, token)
    set_speed = throttle(page)
    set_speed(200_000)
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
    chooser.value.set_files(LARGE)
    cancel = page.get_by_role("button", name="Cancel: large.txt")
    expect(cancel).to_be_visible()
    page.keyboard.press("Tab")
    expect(cancel).to_be_focused()
    page.keyboard.press("Enter")
    expect(row(page, "large.txt")).to_contain_text("Canceled")
    again = page.get_by_role("button", name="Try again: large.txt")
    expect(again).to_be_focused()
    set_speed(-1)
    page.keyboard.press("Enter")
    expect(row(page, "large.txt")).to_contain_text("Thank you, this file has arrived.")
    assert data(client.get(f"/upload-tokens/{token['token_id']}"))["files_stored"] == 1


def test_lost_connection_is_shown_and_tried_again(context: BrowserContext, app: Site, issue: IssueToken) -> None:
    page = context.new_page()
    token = issue(allowed_origins=[app.origin])
    open_element(page, app, token)
    page.route("**/files/upload", lambda route: route.abort())
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text("The connection was lost. Please try again.")
    assert [event["name"] for event in page.evaluate("events")] == ["failed"]
    page.unroute("**/files/upload")
    page.get_by_role("button", name="Try again: note.txt").click()
    expect(row(page, "note.txt")).to_contain_text("Thank you, this file has arrived.")


def test_answer_that_is_not_of_the_service_is_a_failure(context: BrowserContext, app: Site, issue: IssueToken) -> None:
    page = context.new_page()
    open_element(page, app, issue(allowed_origins=[app.origin]))
    headers = {"Access-Control-Allow-Origin": app.origin}
    page.route("**/files/upload", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>", headers=headers))
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text("Files cannot be received at the moment.")


def test_files_beyond_the_number_are_not_sent(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin], max_files=2), max_files="2")
    names = ("a.txt", "b.txt", "c.txt")
    page.locator(CHOOSER).set_input_files([renamed(NOTE, name) for name in names])
    expect(row(page, "c.txt")).to_contain_text("No more files can be sent here.")
    for name in names[:2]:
        expect(row(page, name)).to_contain_text("Thank you, this file has arrived.")


def test_token_that_is_over_is_told(page: Page, app: Site, issue: IssueToken, client: ApiClient) -> None:
    token = issue(allowed_origins=[app.origin])
    client.delete(f"/upload-tokens/{token['token_id']}")
    open_element(page, app, token)
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text("No more files can be sent with this link.")


def test_dropped_files_are_sent(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]))
    dropped = page.evaluate_handle(
        """() => {
          const dropped = new DataTransfer();
          dropped.items.add(new File(["Wind and rain, all day long."], "dropped.txt", {type: "text/plain"}));
          return dropped;
        }"""
    )
    page.dispatch_event("sluice-upload label", "dragover", {"dataTransfer": dropped})
    expect(page.locator("sluice-upload label")).to_have_class("over")
    page.dispatch_event("sluice-upload label", "drop", {"dataTransfer": dropped})
    expect(row(page, "dropped.txt")).to_contain_text("Thank you, this file has arrived.")


def test_outcome_is_announced(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]))
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(page.get_by_role("status")).to_have_text("note.txt: Thank you, this file has arrived.")


def test_name_of_a_file_is_text(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]))
    name = "<img src=x onerror=alert(1)>\u202etxt.exe"
    page.locator(CHOOSER).set_input_files(renamed(EXE, name))
    expect(page.locator("sluice-upload bdi")).to_have_text(name)
    assert page.locator("sluice-upload img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_axe_finds_nothing(page: Page, app: Site, issue: IssueToken, scheme: Any, width: int) -> None:
    require_packages()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    token = issue(allowed_origins=[app.origin])
    page.goto(token["form_url"])
    expect(page.locator(CHOOSER)).to_be_attached()
    assert violations(page) == []
    page.locator(CHOOSER).set_input_files([NOTE, EXE])
    expect(row(page, "setup.exe")).to_contain_text("Files of the kind EXE are not accepted here.")
    throttle(page)(100_000)
    page.locator(CHOOSER).set_input_files(LARGE)
    expect(page.locator("sluice-upload progress")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_without_a_script(context: BrowserContext, issue: IssueToken, scheme: Any) -> None:
    require_packages()
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 360, "height": 800})
    token = issue(redirect_error=None, redirect_ok="https://app.example.com/")  # such a page stays a plain form
    page.goto(token["form_url"])
    assert violations(page) == []
    page.set_input_files("#file", EXE)
    page.click("button")
    expect(page.locator(".results li")).to_have_count(1)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
