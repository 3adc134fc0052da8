"""`make screenshots`: the pictures of docs/uploads.md, taken of a running service."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, FilePayload, Page, expect

from tests.browser.conftest import EXE, IssueToken, renamed
from tests.browser.element import CHOOSER, open_element, row, throttle
from tests.browser.sites import Site
from tests.service import Service

DOCS = Path(__file__).parents[3] / "docs"
IMAGES = DOCS / "images"
PAGE = (DOCS / "uploads.md").read_text(encoding="utf-8")
HAIL = b"Dear Sir or Madam, the hail broke the window.\n" * 30
LETTER: FilePayload = {"name": "Letter to the insurance.txt", "mimeType": "text/plain", "buffer": HAIL}
STATEMENT: FilePayload = {"name": "Statement.txt", "mimeType": "text/plain", "buffer": b"It hailed.\n" * 60_000}


@contextmanager
def opened(browser: Browser, url: str, **options: Any) -> Iterator[Page]:
    context = browser.new_context(locale="en-GB", reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(url)
    yield page
    context.close()


def shoot(page: Page, name: str) -> None:
    """Take a picture of the page down to a little below its content, if the docs show it."""
    if f"images/{name}.png" not in PAGE:
        return
    box, size = page.locator("main").bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    clip: Any = {"x": 0, "y": 0, "width": size["width"], "height": box["y"] + box["height"] + 32}
    IMAGES.mkdir(exist_ok=True)
    taken = Image.open(BytesIO(page.screenshot(full_page=True, clip=clip)))
    small = taken.convert("RGB").quantize(200, Image.Quantize.MAXCOVERAGE)  # a third of the size
    small.save(IMAGES / f"{name}.png", optimize=True)


@pytest.mark.parametrize(("scheme", "wide"), [("light", 720), ("dark", 720), ("light", 360)])
def test_page(browser: Browser, browser_service: Service, issue: IssueToken, scheme: Any, wide: int) -> None:
    name = f"upload-page-{scheme}-{wide}"
    size: Any = {"width": wide, "height": 640}
    with opened(browser, issue(max_files=5)["form_url"], color_scheme=scheme, viewport=size) as page:
        expect(page.locator(CHOOSER)).to_be_attached()
        shoot(page, f"{name}-empty")
        page.locator(CHOOSER).set_input_files([LETTER, EXE])
        expect(row(page, "setup.exe")).to_contain_text("not accepted")
        shoot(page, f"{name}-done")
        set_speed = throttle(page)
        set_speed(150_000)
        page.locator(CHOOSER).set_input_files(STATEMENT)
        expect(page.locator("sluice-upload progress")).to_have_attribute("value", re.compile(r"[4-9]\d"))
        shoot(page, f"{name}-uploading")
        set_speed(-1)
        expect(row(page, "Statement.txt")).to_contain_text("has arrived")
        browser_service.process.send_signal(signal.SIGSTOP)  # all bytes are sent, and no verdict comes
        try:
            page.locator(CHOOSER).set_input_files(renamed(LETTER, "Invoice.txt"))
            expect(row(page, "Invoice.txt")).to_contain_text("Being checked")
            shoot(page, f"{name}-checking")
        finally:
            browser_service.process.send_signal(signal.SIGCONT)
        expect(row(page, "Invoice.txt")).to_contain_text("has arrived")


APPLICATION_STYLE = """
  :root { color-scheme: light dark; }
  body { margin: 0; font: 1rem/1.5 system-ui, sans-serif; }
  main { max-width: 34rem; margin: 0 auto; padding: 32px 16px 0; }
"""


@pytest.mark.parametrize(("scheme", "wide"), [("light", 720), ("dark", 720), ("light", 360)])
def test_element(browser: Browser, app: Site, issue: IssueToken, scheme: Any, wide: int) -> None:
    size: Any = {"width": wide, "height": 640}
    token = issue(max_files=5, allowed_origins=[app.origin])
    with opened(browser, "about:blank", color_scheme=scheme, viewport=size) as page:
        open_element(page, app, token, tus_endpoint=token["tus_url"])
        page.add_style_tag(content=APPLICATION_STYLE)
        page.locator(CHOOSER).set_input_files([LETTER, EXE])
        expect(row(page, "setup.exe")).to_contain_text("not accepted")
        set_speed = throttle(page)
        set_speed(150_000)
        page.locator(CHOOSER).set_input_files(STATEMENT)
        expect(page.locator("sluice-upload progress")).to_have_attribute("value", re.compile(r"[4-9]\d"))
        shoot(page, f"upload-element-{scheme}-{wide}")
        set_speed(-1)
        expect(row(page, "Statement.txt")).to_contain_text("has arrived")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_plain_form(browser: Browser, issue: IssueToken, scheme: Any) -> None:
    size: Any = {"width": 720, "height": 640}
    url = issue(max_files=5)["form_url"]
    with opened(browser, url, color_scheme=scheme, viewport=size, java_script_enabled=False) as page:
        page.set_input_files("#file", [LETTER, EXE])
        page.click("button")
        expect(page.locator(".results li")).to_have_count(2)
        shoot(page, f"upload-page-{scheme}-plain")
