"""Chromium, which tests of pages drive. Playwright takes a second to load, which collection need not take."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.required import missing

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from playwright.sync_api import expect as expect  # noqa: PLC0414  (exported)
else:

    def expect(*arguments: Any) -> Any:
        from playwright.sync_api import expect as of_playwright  # noqa: PLC0415  (loaded when a test runs)

        return of_playwright(*arguments)


_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, not for the whole session: while Playwright runs, asynchronous tests cannot."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (loaded when a test runs)

    # Debian's shell for tests takes half of the processor time of the whole browser.
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if chromium is None:
        missing("Chromium", apt="chromium-headless-shell")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, headless=True, args=list(_FLAGS))
        yield started
        started.close()
