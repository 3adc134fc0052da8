"""The console in a real browser: by mouse, by keyboard alone, without JavaScript, in both colour schemes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.browser.chromium import expect
from tests.console.conftest import AXE, Demo
from tests.console.test_passkeys import invite, user_id_of
from tests.console.users import match, signed_in
from tests.run_length import LONG_RUN
from tests.service import ApiClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page


Scheme = Literal["light", "dark"]
SCREENS = (
    *(
        "/overview",
        "/find?q=a",
        "/find?q=nothing-of-this-name",
        "/files",
        "/files/deleted",
        "/files/{file_id}",
        "/files/all?context=claims&action=delete",
    ),
    *("/files/all?context=claims&action=restore", "/jobs", "/jobs/{job_id}", "/rejections"),
    *("/jobs/new", "/jobs/new?context=claims", "/erasures/new", "/erasures/new?uploaded_by=nobody"),
    *("/rejections?state=reviewed", "/reports", "/reports/{report_id}", "/quarantine", "/quarantine/{quarantined_id}"),
    *("/hashes", "/hashes/new"),
    *("/contexts", "/contexts/new", "/contexts/claims", "/contexts/claims/edit", "/contexts/claims/checks"),
    *("/buckets", "/buckets/new", "/keys"),
    *("/keys/new", "/tokens", "/tokens/new", "/integrate", "/webhooks", "/webhooks/new", "/webhooks/{endpoint_id}"),
    *("/audit", "/{actor}", "/keys/{api_key_id}", "/users", "/users/new"),
)
WAYS = ("mouse", "keyboard", "no script") if LONG_RUN else ("keyboard",)
LOOKS: tuple[tuple[Scheme, int], ...] = (("light", 1280), ("dark", 360))
if LONG_RUN:
    LOOKS += (("dark", 1280), ("light", 360))
_MOST_TABS = 80
_SHORT_WAY = 3
"""Controls over which the short form reaches another one with the Tab key; the long form comes from the page's start."""
_FIRST_NAME = r'<td class="name">.*?<a'


@pytest.fixture(scope="module")
def signed_in_state(browser: Browser, demo: Demo) -> Any:
    context = browser.new_context(base_url=demo.service.url)
    page = context.new_page()
    page.goto(demo.new_link())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/overview")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="module")
def ids(demo: Demo) -> dict[str, str]:
    """The ids of a stored file, a rejected one, one in quarantine, an endpoint and a job, and the page of an actor."""
    with signed_in(ApiClient(demo.service, demo.tenant_id, None)) as user:
        return {
            name: html.unescape(match(rf'{before}[^>]*href="/console/(?:\w+/)?([^"]+)"', user.get(path).text))
            for name, path, before in (
                ("file_id", "/files", _FIRST_NAME),
                ("report_id", "/reports?outcome=rejected", _FIRST_NAME),
                ("quarantined_id", "/quarantine", _FIRST_NAME),
                ("endpoint_id", "/webhooks", _FIRST_NAME),
                ("job_id", "/jobs", _FIRST_NAME),
                ("api_key_id", "/keys", _FIRST_NAME),
                ("actor", "/audit", '(?s)<tbody.*?<a class="inline"'),
            )
        }


@pytest.fixture(scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page(browser: Browser, demo: Demo, signed_in_state: Any, way: str) -> Iterator[Page]:
    context = browser.new_context(
        base_url=demo.service.url, storage_state=signed_in_state, java_script_enabled=way != "no script"
    )
    page = context.new_page()
    yield page
    context.close()


def use(page: Page, way: str, control: Locator) -> None:
    """Use a control: click it, or reach it with the Tab key and press Enter (a box: the space bar)."""
    if way != "keyboard":
        control.click()
        return
    reach(page, control)
    is_box = control.evaluate("element => element.matches('input[type=checkbox], input[type=file]')")
    page.keyboard.press("Space" if is_box else "Enter")


_TABS_BEFORE = """element => {
    const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary')].filter(
        each => !each.disabled && each.tabIndex >= 0 && each.checkVisibility({visibilityProperty: true}));
    const start = document.activeElement === document.body && location.hash
        ? document.querySelector(location.hash) : document.activeElement;
    const follows = each => start.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING;
    return follows(element) ? all.slice(0, all.indexOf(element)).filter(follows).length : 0;
}"""
"""How many controls are between the one that has the focus and this one."""


_COME_NEAR = """(element, controls) => {
    const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary')].filter(
        each => !each.disabled && each.tabIndex >= 0 && each.checkVisibility({visibilityProperty: true}));
    all[Math.max(0, all.indexOf(element) - controls)]?.focus();
}"""


def reach(page: Page, control: Locator) -> None:
    element = control.element_handle()
    if not LONG_RUN and element.evaluate(_TABS_BEFORE) > _SHORT_WAY:
        element.evaluate(_COME_NEAR, _SHORT_WAY)
    if element.evaluate("element => document.activeElement === document.body && !!element.closest('#main')"):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # on the link that skips the navigation
    for _ in range(element.evaluate(_TABS_BEFORE)):  # without looking after each
        page.keyboard.press("Tab")
    for _ in range(_MOST_TABS):
        reached = element.evaluate("element => element.isConnected ? element === document.activeElement : null")
        if reached:
            return
        if reached is None:  # a script has replaced the list meanwhile
            element = control.element_handle()
        page.keyboard.press("Tab")
    pytest.fail(f"the Tab key does not reach {control}")


def write(page: Page, way: str, control: Locator, text: str) -> None:
    if way != "keyboard":
        control.fill(text)
        return
    reach(page, control)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def choose(page: Page, way: str, control: Locator, value: str) -> None:
    if way == "keyboard":
        reach(page, control)
    control.select_option(value)


def test_files_are_searched_linked_deleted_and_restored(page: Page, way: str) -> None:
    page.goto("/console/files")
    write(page, way, page.get_by_role("main").get_by_role("searchbox"), "statement-2026-0")
    use(page, way, page.get_by_role("button", name="Filter"))
    page.get_by_text("in the newest 10,000").wait_for()
    name = page.locator("td.name a").first.inner_text()
    use(page, way, page.locator("td.name a").first)
    page.get_by_role("heading", level=1, name=name).wait_for()
    use(page, way, page.get_by_role("button", name="Make a download link"))
    page.get_by_text("A link that works for 5 minutes").wait_for()
    use(page, way, page.get_by_role("button", name="Delete…"))
    use(page, way, page.get_by_role("button", name="Delete 1 file"))
    page.get_by_text("Deleted.").wait_for()
    page.goto("/console/files")
    use(page, way, page.get_by_role("link", name="Deleted files"))
    page.wait_for_url("**/console/files/deleted")
    box = page.locator("tbody input[type=checkbox]").first
    use(page, way, box)
    use(page, way, page.get_by_role("button", name="Restore chosen files"))
    page.get_by_text("Restored, with everything it had.").wait_for()


def test_everything_is_searched_from_every_page(page: Page, way: str, ids: dict[str, str]) -> None:
    page.goto("/console/audit")
    field = page.get_by_role("navigation").get_by_role("searchbox")
    if way == "keyboard":
        page.keyboard.press("/")
        page.keyboard.type("Gutachten")
    else:
        field.fill("Gutachten")
        field.press("Enter")
    if way == "keyboard":
        page.keyboard.press("Enter")
    files = page.get_by_role("region", name="Files of this name", exact=True)
    files.get_by_role("link", name="Gutachten.pdf").first.wait_for()
    if way != "no script":
        page.keyboard.press("Control+k")
        page.keyboard.type(ids["report_id"])
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/console/reports/{ids['report_id']}")


def test_list_is_filtered_while_the_user_types_and_keeps_the_focus(page: Page, way: str) -> None:
    if way == "no script":
        return
    page.goto("/console/files")
    page.get_by_role("main").get_by_role("searchbox").type("Gutachten")
    page.wait_for_url("**/console/files?q=Gutachten")
    assert set(page.locator("td.name > a").all_inner_texts()) == {"Gutachten.pdf"}
    exported = page.get_by_role("link", name="Export CSV").get_attribute("href")
    assert exported == "/console/files.csv?q=Gutachten"
    link = page.locator("td.name > a").last.element_handle()
    link.focus()
    page.evaluate("document.querySelector('form[data-filter]').requestSubmit()")
    page.wait_for_function("link => !link.isConnected", arg=link)
    focused = page.evaluate("document.activeElement.getAttribute('href')")
    assert focused == link.get_attribute("href"), "the list is another one, and its link has the focus"


def test_job_on_all_that_match_begins_when_its_word_is_typed_and_shows_its_end(page: Page, way: str) -> None:
    page.goto("/console/files?context=claims")
    use(page, way, page.get_by_role("link", name="Delete all that match…"))
    page.get_by_role("heading", name="Delete all files that match?").wait_for()
    write(page, way, page.get_by_label(re.compile("^Type ")), "all of them")
    use(page, way, page.get_by_role("button", name="Delete them"))
    page.get_by_text("Nothing was changed.").wait_for()
    page.goto("/console/files/deleted?context=claims")
    page.goto("/console/files/all?context=claims&action=restore")
    write(page, way, page.get_by_label("Type restore to confirm"), "restore")
    use(page, way, page.get_by_role("button", name="Restore them"))
    page.wait_for_url("**/console/jobs/job_*")
    await_end(page, way)
    assert "restored" in page.get_by_role("status").first.inner_text()


def test_export_is_begun_and_downloaded(page: Page, way: str) -> None:
    page.goto("/console/files?context=claims")
    use(page, way, page.get_by_role("button", name="Export all that match as a job"))
    page.wait_for_url("**/console/jobs/job_*")
    await_end(page, way)
    use(page, way, page.get_by_role("button", name="Make a download link"))
    page.get_by_text("A link that works for 15 minutes").wait_for()


def await_end(page: Page, way: str) -> None:
    """Wait until the page of a job shows its end, which without a script it does when it is loaded again."""
    done = page.locator(".badge.good", has_text="Done")
    for _ in range(200):
        if way != "no script" or done.count():
            break
        page.get_by_role("link", name="Refresh").click()
    done.wait_for()


def test_endpoint_of_a_webhook_is_added_and_its_secret_shown_once(page: Page, way: str) -> None:
    page.goto("/console/webhooks")
    use(page, way, page.get_by_role("link", name="Add an endpoint"))
    write(page, way, page.get_by_label("Address"), f"https://{way.replace(' ', '-')}.example/hooks")
    use(page, way, page.get_by_role("button", name="Add the endpoint"))
    assert page.locator("#secret").inner_text().startswith("whsec_")
    page.goto("/console/webhooks")
    assert "whsec_" not in page.content()


def test_file_in_quarantine_is_looked_at_scanned_again_and_released_after_a_question(page: Page, way: str) -> None:
    page.goto("/console/quarantine")
    use(page, way, page.locator("td.name a").first)
    page.get_by_role("heading", name="First bytes").wait_for()
    write(page, way, page.get_by_label("Why"), "a look with newer signatures")
    use(page, way, page.get_by_role("button", name="Scan it again"))
    page.get_by_text("It is scanned again next").wait_for()
    page.goto("/console/quarantine")
    use(page, way, page.get_by_role("button", name="Release").first)
    page.get_by_role("heading", name="Release this file?").wait_for()
    use(page, way, page.get_by_role("link", name="Keep it in quarantine"))
    page.wait_for_url("**/console/quarantine")


def test_group_of_rejections_leads_to_a_report_and_is_reviewed_and_opened_again(page: Page, way: str) -> None:
    page.goto("/console/rejections")
    use(page, way, page.locator("td.name > a").first)
    page.wait_for_url("**/console/reports?*")
    use(page, way, page.locator("td.name > a").first)
    page.get_by_text("Tell the sender").wait_for()
    use(page, way, page.get_by_role("link", name="Would a change have helped?"))
    use(page, way, page.get_by_role("button", name="Try on earlier uploads"))
    page.get_by_text("What this would have done in the last 7 days").wait_for()
    page.goto("/console/rejections")
    before = page.locator("tbody tr").count()
    use(page, way, page.locator("tbody input[type=checkbox]").last)
    use(page, way, page.get_by_role("button", name="Mark as reviewed"))
    page.get_by_text("1 group is marked as reviewed.").wait_for()
    expect(page.locator("tbody tr")).to_have_count(before - 1)
    use(page, way, page.get_by_role("link", name="Reviewed"))
    page.wait_for_url("**/console/rejections?state=reviewed")
    use(page, way, page.locator("tbody input[type=checkbox]").first)
    use(page, way, page.get_by_role("button", name="Open again"))
    page.get_by_text("1 group is open again.").wait_for()


def test_letters_move_in_a_list_choose_a_row_and_do_the_main_action(
    browser: Browser, demo: Demo, signed_in_state: Any
) -> None:
    context = browser.new_context(base_url=demo.service.url, storage_state=signed_in_state)
    page = context.new_page()
    page.goto("/console/rejections")
    for letter in "jjkxe":
        page.keyboard.press(letter)
    page.get_by_text("1 group is marked as reviewed.").wait_for()
    page.keyboard.press("?")
    sheet = page.get_by_role("dialog", name="Keyboard")
    sheet.get_by_label("shortcuts in this browser").uncheck()
    page.keyboard.press("Escape")
    sheet.wait_for(state="hidden")
    page.keyboard.press("j")
    assert page.evaluate("!document.activeElement.closest('tr')")
    context.close()


def test_context_is_made_and_edited(page: Page, way: str) -> None:
    page.goto("/console/contexts")
    use(page, way, page.get_by_role("link", name="New context"))
    key = f"made_by_{way.replace(' ', '_')}"
    write(page, way, page.get_by_label("Key", exact=True), key)
    write(page, way, page.get_by_label("Name", exact=True), f"Made by {way}")
    write(page, way, page.get_by_label("Extensions", exact=True), "pdf png")
    use(page, way, page.get_by_role("button", name="Save"))
    page.get_by_role("heading", level=1, name=f"Made by {way}").wait_for()
    use(page, way, page.get_by_role("link", name="Edit"))
    choose(page, way, page.get_by_label("Malware"), "quarantine")
    use(page, way, page.get_by_role("button", name="Save"))
    page.wait_for_url(f"**/console/contexts/{key}")
    assert page.locator(".diff del").inner_text() == "Reject"
    assert page.locator(".diff ins").inner_text() == "Quarantine"
    assert "Quarantine" in page.locator("dl.facts").first.inner_text()


def test_file_is_tried(page: Page, way: str) -> None:
    page.goto("/console/contexts/claims")
    field = page.get_by_label("Drop a file here, or choose one")
    field.set_input_files({"name": "setup.exe", "mimeType": "application/x", "buffer": b"MZ" + bytes(100)})
    if way == "no script":
        page.get_by_role("button", name="Check it").click()
    page.get_by_role("heading", name="setup.exe would be rejected").wait_for()


def test_test_upload_is_sent_and_its_file_scanned_again(page: Page, way: str) -> None:
    page.goto("/console/integrate?context=claims")
    use(page, way, page.get_by_role("button", name="Send a test upload"))
    page.get_by_text("It is deleted after a day").wait_for()
    use(page, way, page.get_by_role("link", name="File", exact=True))
    use(page, way, page.locator("summary", has_text="Scan it again"))
    write(page, way, page.locator("#rescan-comment"), "new signatures")
    use(page, way, page.get_by_role("button", name="Scan it again"))
    page.get_by_text("It is scanned next").wait_for()


def test_key_and_token_are_made_and_ended(page: Page, way: str) -> None:
    page.goto("/console/keys")
    use(page, way, page.get_by_role("link", name="New key"))
    write(page, way, page.get_by_label("Name"), f"Made by {way}")
    use(page, way, page.get_by_label("Metadata"))
    use(page, way, page.get_by_role("button", name="Make the key"))
    assert page.locator("#secret").inner_text().startswith("sl_live_")
    use(page, way, page.get_by_role("link", name="Done"))
    use(page, way, page.get_by_role("button", name=f"Disable Made by {way}"))
    use(page, way, page.get_by_role("button", name=f"Revoke Made by {way}"))
    use(page, way, page.get_by_role("button", name="Revoke the key"))
    page.wait_for_url("**/console/keys")
    use(page, way, page.get_by_role("link", name="Upload tokens"))
    use(page, way, page.get_by_role("link", name="New token"))
    use(page, way, page.get_by_role("button", name="Make the token"))
    assert page.locator("#secret").inner_text().startswith("ut_live_")


def test_refused_bucket_is_explained_and_its_secret_not_shown_again(page: Page, way: str) -> None:
    page.goto("/console/buckets")
    use(page, way, page.get_by_role("link", name="Add a bucket").first)
    for label, text in (
        ("Name", "archive"),
        ("Bucket", "example-archive"),
        ("Endpoint", "https://not-listed.example"),
        ("Access key", "AKIAIOSFODNN7EXAMPLE"),
        ("Secret access key", "wJalrXUtnFEMI"),
    ):
        write(page, way, page.get_by_label(label, exact=True), text)
    use(page, way, page.get_by_role("button", name="Try it out and add it"))
    assert "endpoint_url" in page.get_by_role("alert").inner_text()
    page.wait_for_load_state()
    assert "wJalrXUtnFEMI" not in page.content()


def test_audit_log_is_filtered(page: Page, way: str) -> None:
    page.goto("/console/audit")
    choose(page, way, page.get_by_label("Action"), "context.created")
    use(page, way, page.get_by_role("button", name="Filter"))
    page.wait_for_url("**/console/audit?action=context.created*")
    assert set(page.locator("tbody tr td:nth-child(3)").all_inner_texts()) == {"Context › created"}


def test_overview_changes_its_range_and_the_user_signs_out(browser: Browser, demo: Demo, way: str) -> None:
    context = browser.new_context(base_url=demo.service.url, java_script_enabled=way != "no script")
    page = context.new_page()
    page.goto(demo.new_link())
    use(page, way, page.get_by_role("button", name="Sign in"))
    use(page, way, page.get_by_role("link", name="7 days"))
    page.wait_for_url("**/console/overview?days=7")
    use(page, way, page.get_by_role("button", name="Sign out"))
    page.get_by_role("heading", name="Sign in").wait_for()
    page.goto("/console/files")
    page.get_by_role("heading", name="Sign in").wait_for()
    context.close()


@pytest.mark.parametrize("look", LOOKS if LONG_RUN else LOOKS[:1], ids=str)
def test_screens_have_no_complaint_no_overflow_and_no_finding_of_axe(
    browser: Browser, demo: Demo, signed_in_state: Any, ids: dict[str, str], look: tuple[Scheme, int]
) -> None:
    """The short run loads each screen in one look, in turn; the long one loads it in every look."""
    context = watched_context(browser, demo, signed_in_state, *look)
    page = context.new_page()
    complaints: list[str] = []
    findings: list[Any] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    for number, screen in enumerate(SCREENS):
        path = f"/console{screen.format(**ids)}"
        scheme, width = look if LONG_RUN else LOOKS[number % len(LOOKS)]
        set_look(page, scheme, width)
        response = page.goto(path)
        assert response is not None
        assert response.status == 200, path
        if AXE.exists():
            page.evaluate(AXE.read_text())
            found = page.evaluate(FINDINGS)
            findings += [(path, *finding) for finding in found]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.evaluate("violations") == [], path
        assert complaints == [], path
    assert findings == []
    context.close()


FINDINGS = """axe.run({resultTypes: ["violations"]}).then(
    found => found.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"""


def set_look(page: Page, scheme: Scheme, width: int) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})


def watched_context(browser: Browser, demo: Demo, state: Any, scheme: Scheme, width: int) -> BrowserContext:
    """Return a browser context whose pages count violations of their policy."""
    context = browser.new_context(
        base_url=demo.service.url, storage_state=state, color_scheme=scheme, viewport={"width": width, "height": 800}
    )
    context.add_init_script(
        "window.violations = [];"
        "addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective));"
    )
    return context


def check_look(tab: Page) -> None:
    """Assert that a page has no finding of axe, and that it fits into a wide and a narrow window."""
    if AXE.exists():
        tab.evaluate(AXE.read_text())
        assert tab.evaluate(FINDINGS) == []
    for width in (1280, 360):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, tab.url
    tab.set_viewport_size({"width": 1280, "height": 800})


def test_person_joins_signs_out_and_signs_in_in_a_browser(browser: Browser, demo: Demo) -> None:
    site = f"http://localhost:{demo.service.port}"
    with signed_in(ApiClient(demo.service, demo.tenant_id, None)) as admin:
        link = invite(admin, "reviewer", "Rita")
    context = browser.new_context()
    try:
        tab = context.new_page()
        faults: list[str] = []
        tab.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        device = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        device |= {"isUserVerified": True, "automaticPresenceSimulation": True}
        protocol = context.new_cdp_session(tab)
        protocol.send("WebAuthn.enable")
        protocol.send("WebAuthn.addVirtualAuthenticator", {"options": device})
        tab.goto(f"{demo.service.url}/console{link}")
        tab.get_by_role("button", name="Create a passkey").click()
        tab.get_by_text(f"Passkeys work at {site} only").wait_for()
        tab.goto(f"{site}/console{link}")
        check_look(tab)
        tab.get_by_role("button", name="Create a passkey").click()
        tab.wait_for_url("**/console/overview")
        tab.get_by_role("button", name="Sign out").locator("visible=true").click()
        tab.wait_for_url("**/console/login")
        check_look(tab)
        tab.get_by_role("button", name="Sign in with a passkey").click()
        tab.wait_for_url("**/console/overview")
        tab.goto(f"{site}/console/account")
        assert tab.locator("tbody tr").count() == 1
        check_look(tab)
        with signed_in(ApiClient(demo.service, demo.tenant_id, None)) as admin:
            admin.post(f"/users/{user_id_of(link)}/change", role="admin")
            invite(admin, "admin", "W" * 60)
        tab.goto(f"{site}/console/users")
        check_look(tab)
        assert not faults, faults
    finally:
        context.close()
