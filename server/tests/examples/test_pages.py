"""The recipes whose files go from the page to Sluice, in Chromium: a plain form, and Uppy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tests.api.samples import picture
from tests.browser.chromium import expect
from tests.browser.conftest import PACKAGES, require_packages, watch_console
from tests.browser.sites import Site
from tests.examples.conftest import BROKEN, EXAMPLES, RunRecipe

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, FilePayload


def png(name: str, content: bytes) -> FilePayload:
    return {"name": name, "mimeType": "image/png", "buffer": content}


def test_plain_form_stores_a_file_and_shows_the_sentence_for_another(
    browser: Browser, environment: Mapping[str, str], sentence: str, newest: Callable[[], str]
) -> None:
    script = EXAMPLES / "plain-html" / "make-form.sh"
    form = subprocess.run([script], env=environment, capture_output=True, text=True, check=True, timeout=60).stdout
    visitor = browser.new_context(locale="en-GB", java_script_enabled=False)
    page = visitor.new_page()
    with Site.running() as site:
        site.pages["/"] = form
        for name, content, shown in (("plain.png", picture(), "plain.png"), ("broken.png", BROKEN, sentence)):
            page.goto(site.origin)
            page.set_input_files("input[type=file]", png(name, content))
            page.get_by_role("button", name="Send").click()
            expect(page.locator("body")).to_contain_text(shown)
            assert newest() == "plain.png"
    visitor.close()


def test_uppy_stores_a_file_and_shows_the_sentence_for_another(
    context: BrowserContext, run_recipe: RunRecipe, sentence: str, newest: Callable[[], str]
) -> None:
    require_packages()
    server, page = EXAMPLES / "uppy" / "server.py", context.new_page()
    errors = watch_console(page)
    with run_recipe(sys.executable, server, UPPY=str(PACKAGES / "uppy" / "dist")) as url:
        for name, content, shown in (
            ("uppy.png", picture(), "Thank you: we have uppy.png."),
            ("broken.png", BROKEN, sentence),
        ):
            page.goto(url)
            page.set_input_files("input[type=file] >> nth=0", png(name, content))
            page.locator(".uppy-StatusBar-actionBtn--upload").click()
            expect(page.locator("#sentence")).to_have_text(shown, timeout=30_000)
            assert newest() == "uppy.png"
    assert [error for error in errors if "tus" not in error] == []  # Uppy writes the rejection to the console
