"""Count the clicks and entries of ten tasks in the console of a fresh demo, from the overview on; see docs/console.md."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from typing import Final

from gallery import FLAGS, running_service, sluice
from playwright.sync_api import Locator, Page, expect, sync_playwright


class Hand:
    """Does what a user does, and counts it: clicks and keys as clicks, fields that are typed or chosen as entries."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = self.entries = 0

    def open(self, name: str) -> None:
        """Choose a page of the navigation."""
        self.click(self.page.get_by_role("navigation").get_by_role("link", name=name))
        self.page.wait_for_url(re.compile(rf"/console/{name.lower()}$"))

    def click(self, target: Locator) -> None:
        """Click on the first of what was found."""
        self.clicks += 1
        target.first.click()

    def press(self, key: str) -> None:
        """Press a key, which counts as a click."""
        self.clicks += 1
        self.page.keyboard.press(key)

    def enter(self, label: str, text: str) -> None:
        """Fill in a field."""
        self.entries += 1
        self.page.get_by_label(label).and_(self.page.locator("main input")).first.fill(text)

    def choose(self, label: str, option: str) -> None:
        """Choose an option of a list."""
        self.entries += 1
        self.page.get_by_label(label).and_(self.page.locator("select")).first.select_option(option)

    def button(self, name: str) -> None:
        """Click on a button."""
        self.click(self.page.get_by_role("main").get_by_role("button", name=name, exact=True))

    def link(self, name: str) -> None:
        """Click on a link of the page itself."""
        self.click(self.page.get_by_role("main").get_by_role("link", name=name))


def find_report(hand: Hand) -> None:
    """Open the report whose number a sender quotes."""
    number = quoted(hand.page)
    hand.press("/")
    hand.entries += 1
    hand.page.keyboard.type(number)
    hand.press("Enter")
    expect(hand.page.get_by_role("heading", name="Tell the sender")).to_be_visible()


def tell_in_german(hand: Hand) -> None:
    """Copy the sentence for the sender of a blank document, in German."""
    hand.link("Blank document")
    hand.click(hand.page.locator("td.name .under a"))
    hand.choose("Language of the sender", "de")
    hand.button("Show")
    hand.button("Copy for the sender")
    expect(hand.page.locator("#sentence")).to_contain_text("Datei")


def all_of_a_person(hand: Hand) -> None:
    """See the files, rejected uploads and actions of the one who sent a file."""
    hand.open("Files")
    hand.click(hand.page.locator("td a.inline", has_text="Demo"))
    expect(hand.page.get_by_role("heading", name="Rejected uploads")).to_be_visible()


def why_in_quarantine(hand: Hand) -> None:
    """See threat and engine of a file in quarantine."""
    hand.link("A file waits in quarantine")
    hand.click(hand.page.locator("td.name a"))
    expect(hand.page.get_by_text("found Eicar-Test-File")).to_be_visible()
    expect(hand.page.get_by_text("builtin/").first).to_be_visible()


def export_actions(hand: Hand) -> None:
    """Export what one key did in the last seven days as CSV."""
    hand.open("Audit")
    hand.click(hand.page.locator("tr", has_text="Demo").get_by_text("only these"))
    hand.enter("From", "7d")
    expect(hand.page.locator("main .head a[href*='from=7d']")).to_be_visible()
    with hand.page.expect_download():
        hand.link("Export CSV")


def erase_person(hand: Hand) -> None:
    """Erase an end user of upload tokens."""
    hand.open("Jobs")
    hand.link("Erase a person…")
    hand.enter("End user of upload tokens", "Policyholder 88-1204")
    hand.button("Show what it would do")
    hand.enter("Type erase to confirm", "erase")
    hand.button("Erase the person")
    expect(hand.page.get_by_role("heading", name="Progress")).to_be_visible()


def see_needs(hand: Hand) -> None:
    """See what waits for somebody: a degraded engine, quarantine, a key that expires."""
    for need in ("Scanner builtin is degraded", "A file waits in quarantine", "expires"):
        expect(hand.page.get_by_role("main").get_by_text(need).first).to_be_visible()


def delete_large(hand: Hand) -> None:
    """Delete all files of at least 300 KB in one context."""
    hand.open("Jobs")
    hand.link("New job…")
    hand.choose("Context", "identity_documents")
    hand.enter("At least this large", "300 KB")
    hand.button("Count them")
    hand.link("Delete them…")
    hand.entries += 1
    field = hand.page.locator("input[name=typed]")
    field.fill(re.findall(r"Type (\S+) to confirm", hand.page.locator("main").inner_text())[0])
    hand.button("Delete them")
    expect(hand.page.get_by_role("heading", name="Progress")).to_be_visible()


def review_group(hand: Hand) -> None:
    """Mark the first group of rejections as reviewed."""
    hand.open("Rejections")
    for key in ("j", "x", "e"):
        hand.press(key)
    expect(hand.page.get_by_role("link", name="Reviewed 2")).to_be_visible()


def first_upload(hand: Hand) -> None:
    """Send a test upload into a context, and copy the code for Python."""
    hand.open("Integrate")
    hand.button("Send a test upload")
    expect(hand.page.get_by_role("status")).to_contain_text("accepted")
    hand.click(hand.page.get_by_label("Ways to send files").get_by_role("link", name="Python"))
    hand.button("Copy")


TASKS: Final[tuple[Callable[[Hand], None], ...]] = (
    find_report,
    tell_in_german,
    all_of_a_person,
    why_in_quarantine,
    export_actions,
    erase_person,
    see_needs,
    delete_large,
    review_group,
    first_upload,
)


def quoted(page: Page) -> str:
    """Return the number of a report, as a sender has it from the page that rejected the file."""
    other = page.context.new_page()
    other.goto("/console/reports?outcome=rejected")
    address = other.locator("td.name > a").first.get_attribute("href") or ""
    other.close()
    return address.rpartition("/")[2]


def main() -> None:
    """Start a service, fill it, and do every task."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = os.environ | {"SLUICE_DATA_DIR": folder, "SLUICE_PORT": "8766", "SLUICE_SCANNER": "builtin"}
        with running_service(environment) as url:
            made = re.search(r"ten_[0-9a-z]+", sluice(environment, "demo", "--url", url))
            if made is None:
                raise SystemExit("The demo was not made.")
            chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800}).new_page()
            page.set_default_timeout(10_000)
            page.goto(sluice(environment, "console", "login", "--tenant", made[0]).strip())
            page.get_by_role("button", name="Sign in").click()
            for task in TASKS:
                page.goto("/console/overview")
                hand = Hand(page)
                task(hand)
                print(f"{hand.clicks:3} clicks {hand.entries:2} entries  {task.__doc__}")
            browser.close()


if __name__ == "__main__":
    main()
