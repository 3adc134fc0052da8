"""Take the pictures of `docs/images/console`: the screens of a fresh demo, light and dark, with Debian's Chromium."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "console"
SCREENS = {
    "overview": "/console/overview",
    "files": "/console/files",
    "deleted": "/console/files/deleted",
    "delete-all": "/console/files/all?context=claims&action=delete",
    "jobs": "/console/jobs",
    "rejections": "/console/rejections",
    "quarantine": "/console/quarantine",
    "context": "/console/contexts/partner_exchange/edit",
    "changes": "/console/contexts/claims",
    "keys": "/console/keys",
    "webhooks": "/console/webhooks",
    "audit": "/console/audit",
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
SECONDS_TO_START = 60


def sluice(environment: dict[str, str], *words: str) -> str:
    """Run a command and return what it prints."""
    command = [sys.executable, "-m", "sluice.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def running_service(environment: dict[str, str]) -> Iterator[str]:
    """Run a service until the block ends; yield its address."""
    command = [sys.executable, "-m", "sluice.cli", "serve"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            deadline = time.monotonic() + SECONDS_TO_START
            assert process.stdout is not None  # noqa: S101  (a pipe, as asked above)
            for line in process.stdout:
                found = re.match(r"Sluice serves (\S+)", line)
                if found is not None:
                    yield found[1]
                    return
                if time.monotonic() > deadline:
                    break
            raise SystemExit("The service did not start.")
        finally:
            process.terminate()


def take(browser: Browser, environment: dict[str, str], url: str, tenant: str) -> None:
    """Take all pictures."""
    page = browser.new_page()
    page.goto(sluice(environment, "console", "login", "--tenant", tenant).strip())
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/overview")
    state = page.context.storage_state()
    for scheme in ("light", "dark"):
        context = browser.new_context(
            base_url=url, storage_state=state, color_scheme=scheme, viewport={"width": 1280, "height": 800}
        )
        page = context.new_page()
        for name, path in SCREENS.items():
            page.goto(path)
            picture(page, f"{name}-{scheme}")
        page.goto("/console/reports?outcome=rejected")
        page.locator("td.name > a").first.click()
        page.get_by_text("Tell the sender").wait_for()
        picture(page, f"report-{scheme}")
        page.goto("/console/jobs?kind=bulk_delete")
        page.locator("td.name > a").first.click()
        page.get_by_text("A legal hold forbids it").wait_for()
        picture(page, f"job-{scheme}")
        page.goto("/console/quarantine")
        page.locator("td.name > a").first.click()
        page.get_by_text("First bytes").wait_for()
        picture(page, f"quarantined-{scheme}")
        page.set_viewport_size({"width": 360, "height": 740})
        for name in ("overview", "rejections"):
            page.goto(SCREENS[name])
            picture(page, f"{'narrow' if name == 'overview' else f'{name}-narrow'}-{scheme}")


def picture(page: Page, name: str) -> None:
    """Write what the window shows."""
    page.screenshot(path=FOLDER / f"{name}.png")


def main() -> None:
    """Start a service, fill it, and take the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        environment = os.environ | {"SLUICE_DATA_DIR": folder, "SLUICE_PORT": "8765", "SLUICE_SCANNER": "builtin"}
        with running_service(environment) as url:
            made = re.search(r"ten_[0-9a-z]+", sluice(environment, "demo", "--url", url))
            if made is None:
                raise SystemExit("The demo was not made.")
            chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            take(browser, environment, url, made[0])
            browser.close()


if __name__ == "__main__":
    main()
