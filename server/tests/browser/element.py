"""`<sluice-upload>` on the page of an application: what it shows, announces and reports, by mouse, keyboard and script."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, expect

from sluice.messages import catalogue_of
from tests.api.responses import data
from tests.browser.conftest import EXE, NOTE, PACKAGES, IssueToken, renamed, require_packages, watch_console
from tests.browser.sites import Site
from tests.service import ApiClient

LARGE: FilePayload = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a line of text, and more\n" * 80_000}
RESUMED: FilePayload = {
    "name": "resumed.txt",
    "mimeType": "text/plain",
    "buffer": b"a line of text, and more\n" * 400_000,
}
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


@pytest.fixture
def token(app: Site, issue: IssueToken) -> dict[str, Any]:
    return issue(allowed_origins=[app.origin])


@pytest.fixture
def element(page: Page, app: Site, token: dict[str, Any]) -> Page:
    """A page of the application with the element."""
    open_element(page, app, token)
    return page


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
    page.evaluate((PACKAGES / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found["violations"]]


def test_files_get_the_sentence_of_the_response_and_an_event_each(element: Page) -> None:
    element.locator(CHOOSER).set_input_files([NOTE, EXE])
    expect(row(element, "note.txt")).to_contain_text("Thank you, this file has arrived.")
    expect(row(element, "setup.exe")).to_contain_text("Files of the kind EXE are not accepted here.")
    stored, rejected = element.evaluate("events")
    assert (stored["name"], stored["file"]) == ("stored", "note.txt")
    assert stored["fileId"].startswith("file_")
    assert (rejected["name"], rejected["reason"]) == ("rejected", "extension_not_allowed")
    assert rejected["reportId"].startswith("rep_")


def test_outcome_is_announced_and_the_name_of_a_file_is_text(element: Page) -> None:
    element.locator(CHOOSER).set_input_files(NOTE)
    expect(element.get_by_role("status")).to_have_text("note.txt: Thank you, this file has arrived.")
    name = "<img src=x onerror=alert(1)>\u202etxt.exe"
    element.locator(CHOOSER).set_input_files(renamed(EXE, name))
    expect(element.locator("sluice-upload bdi").last).to_have_text(name)
    assert element.locator("sluice-upload img").count() == 0


def test_words_and_sentences_are_in_the_language_of_the_element(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin]), lang="ja")
    expect(page.locator("label strong")).to_have_text(catalogue_of("ja").page["choose"])
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text(catalogue_of("ja").messages["accepted.plain"])


WATCH = """() => {
  window.steps = [];
  window.states = [];
  const list = document.querySelector("sluice-upload").shadowRoot.querySelector("ul");
  new MutationObserver(() => {
    const bar = list.querySelector("progress"), state = list.querySelector("li").className;
    if (bar && steps.at(-1) !== bar.value) steps.push(bar.value);
    if (states.at(-1) !== state) states.push(state);
  }).observe(list, {subtree: true, childList: true, attributes: true});
}"""


def test_progress_moves_in_many_steps_and_ends_in_being_checked(element: Page) -> None:
    element.evaluate(WATCH)
    throttle(element)(1_000_000)
    element.locator(CHOOSER).set_input_files(LARGE)
    expect(row(element, "large.txt")).to_contain_text("Thank you, this file has arrived.", timeout=30_000)
    steps = element.evaluate("steps")
    assert len(steps) >= 10
    assert (steps, steps[-1]) == (sorted(steps), 100)
    assert element.evaluate("states")[-3:] == ["uploading", "checking", "stored"]


def test_upload_is_canceled_and_retried_by_keyboard(element: Page, token: dict[str, Any], client: ApiClient) -> None:
    set_speed = throttle(element)
    set_speed(200_000)
    with element.expect_file_chooser() as chooser:
        element.keyboard.press("Tab")
        element.keyboard.press("Space")
    chooser.value.set_files(LARGE)
    cancel = element.get_by_role("button", name="Cancel: large.txt")
    expect(cancel).to_be_visible()
    element.keyboard.press("Tab")
    expect(cancel).to_be_focused()
    element.keyboard.press("Enter")
    expect(row(element, "large.txt")).to_contain_text("Canceled")
    expect(element.get_by_role("button", name="Try again: large.txt")).to_be_focused()
    set_speed(-1)
    element.keyboard.press("Enter")
    expect(row(element, "large.txt")).to_contain_text("Thank you, this file has arrived.")
    assert data(client.get(f"/upload-tokens/{token['token_id']}"))["files_stored"] == 1


def test_lost_connection_and_response_of_another_are_shown_and_tried_again(
    context: BrowserContext, app: Site, token: dict[str, Any]
) -> None:
    page = context.new_page()
    open_element(page, app, token)
    page.route("**/files/upload", lambda route: route.abort())
    page.locator(CHOOSER).set_input_files(NOTE)
    expect(row(page, "note.txt")).to_contain_text("The connection was lost. Please try again.")
    assert [event["name"] for event in page.evaluate("events")] == ["failed"]
    page.unroute("**/files/upload")
    headers = {"Access-Control-Allow-Origin": app.origin}
    page.route("**/files/upload", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>", headers=headers))
    page.get_by_role("button", name="Try again: note.txt").click()
    expect(row(page, "note.txt")).to_contain_text("Files cannot be received at the moment.")
    page.unroute("**/files/upload")
    page.get_by_role("button", name="Try again: note.txt").click()
    expect(row(page, "note.txt")).to_contain_text("Thank you, this file has arrived.")


def test_progress_names_bytes_and_time_and_a_lost_connection_until_it_resumes(
    context: BrowserContext, app: Site, token: dict[str, Any]
) -> None:
    page = context.new_page()  # whose console has an error for each lost connection
    open_element(page, app, token, tus_endpoint=token["tus_url"])
    set_speed = throttle(page)
    set_speed(3_000_000)
    page.locator(CHOOSER).set_input_files(RESUMED)
    state = row(page, "resumed.txt").locator(".state")
    expect(state).to_contain_text(
        re.compile(r"\d+%.* · .*\d\sMB.* of .*9\.5\sMB.* · .*\d\sseconds?.* left"), timeout=15_000
    )
    page.route("**/uploads/*", lambda route: route.abort())
    expect(state).to_have_text("Connection lost. Resuming automatically.")
    expect(page.get_by_role("status")).to_have_text("resumed.txt: Connection lost. Resuming automatically.")
    page.unroute("**/uploads/*")
    expect(state).to_contain_text("%", timeout=15_000)
    set_speed(-1)
    expect(state).to_have_text("Thank you, this file has arrived.", timeout=15_000)


def test_rejected_file_has_a_number_to_quote_and_is_replaced_or_removed_by_keyboard(element: Page) -> None:
    element.context.grant_permissions(["clipboard-read", "clipboard-write"])
    element.on("filechooser", lambda chooser: chooser.set_files(NOTE))
    element.locator(CHOOSER).set_input_files([EXE, renamed(EXE, "other.exe")])
    first, second = row(element, "setup.exe"), row(element, "other.exe")
    expect(second).to_contain_text("not accepted here")
    report_id = element.evaluate("events[0].reportId")
    expect(first).to_contain_text(f"Report number: {report_id}")
    first.get_by_role("button", name=f"Copy: {report_id}").click()
    expect(first.get_by_text("Copied")).to_be_visible()
    assert element.evaluate("navigator.clipboard.readText()") == report_id
    first.get_by_role("button", name="Remove: setup.exe").press("Enter")
    expect(first).to_have_count(0)
    expect(element.get_by_role("status")).to_have_text("setup.exe: Removed")
    expect(second.get_by_role("button", name="Replace: other.exe")).to_be_focused()
    element.keyboard.press("Enter")
    expect(row(element, "note.txt")).to_contain_text("Thank you, this file has arrived.")
    expect(element.locator("sluice-upload li")).to_have_count(1)
    expect(element.locator(CHOOSER)).to_be_focused()


def test_files_beyond_the_number_are_not_sent(page: Page, app: Site, issue: IssueToken) -> None:
    open_element(page, app, issue(allowed_origins=[app.origin], max_files=2), max_files="2")
    names = ("a.txt", "b.txt", "c.txt")
    page.locator(CHOOSER).set_input_files([renamed(NOTE, name) for name in names])
    expect(row(page, "c.txt")).to_contain_text("No more files can be sent here.")
    for name in names[:2]:
        expect(row(page, name)).to_contain_text("Thank you, this file has arrived.")


def test_expired_or_spent_token_is_reported(element: Page, token: dict[str, Any], client: ApiClient) -> None:
    client.delete(f"/upload-tokens/{token['token_id']}")
    element.locator(CHOOSER).set_input_files(NOTE)
    expect(row(element, "note.txt")).to_contain_text("No more files can be sent with this link.")


DROPPED = """() => {
  const dropped = new DataTransfer();
  dropped.items.add(new File(["Wind and rain, all day long."], "dropped.txt", {type: "text/plain"}));
  return dropped;
}"""


def test_dropped_files_are_sent(element: Page) -> None:
    dropped, label = element.evaluate_handle(DROPPED), "sluice-upload label"
    element.dispatch_event(label, "dragover", {"dataTransfer": dropped})
    expect(element.locator(label)).to_have_class("over")
    element.dispatch_event(label, "drop", {"dataTransfer": dropped})
    expect(row(element, "dropped.txt")).to_contain_text("Thank you, this file has arrived.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_axe_finds_nothing(page: Page, token: dict[str, Any], scheme: Any, width: int) -> None:
    require_packages()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
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


def test_page_from_right_to_left_fits_a_phone_and_axe_finds_nothing(browser: Browser, issue: IssueToken) -> None:
    require_packages()
    context = browser.new_context(locale="ar", viewport={"width": 360, "height": 800})
    page = context.new_page()
    errors = watch_console(page)
    page.goto(issue()["form_url"])
    page.locator(CHOOSER).set_input_files([NOTE, EXE])
    expect(row(page, "note.txt")).to_contain_text(catalogue_of("ar").messages["accepted.plain"])
    rejected = row(page, "setup.exe")
    expect(rejected).to_contain_text(catalogue_of("ar").page["report"])
    mark, sentence = (rejected.locator(part).bounding_box() for part in ("> svg", ".state"))
    assert mark["x"] > sentence["x"]
    assert violations(page) == errors == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


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
