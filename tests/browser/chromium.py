"""Chromium, which tests of pages drive."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.servers import missing

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, not for the whole session: while Playwright runs, asynchronous tests cannot."""
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("Chromium", apt="chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(_FLAGS))
        yield started
        started.close()
