"""The TypeScript client in a page of another origin, with an upload token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.responses import data
from tests.browser.chromium import expect
from tests.browser.conftest import EXE, IssueToken
from tests.browser.element import throttle
from tests.browser.resumable import cut_first_part
from tests.browser.sites import Site
from tests.clients.typescript import installed_package, require_node
from tests.service import ApiClient

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, FilePayload, Page


LARGE: FilePayload = {
    "name": "large.txt",
    "mimeType": "text/plain",
    "buffer": b"a line of text, and one more of it\n" * 30_000,  # 1 MB
}
PAGE = """
<input type="file" id="file"><output id="out"></output>
<script type="module">
  import { FileRejected, Sluice } from "/client/index.js";
  const query = new URLSearchParams(location.search);
  const sluice = new Sluice({ url: query.get("url"), credential: query.get("token"), language: "de" });
  window.steps = [];
  document.getElementById("file").onchange = async (event) => {
    try {
      const stored = await sluice.upload(event.target.files[0], {
        resumable: query.has("resumable"), chunkSize: 400_000, onProgress: (sent, total) => steps.push(sent / total),
      });
      out.value = `stored ${stored.file_id} ${stored.original_filename}`;
    } catch (error) {
      out.value = error instanceof FileRejected ? `${error.reason}: ${error.message}` : `${error}`;
    }
  };
  document.body.dataset.ready = "yes";
</script>
"""


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The modules of the package, by the paths under which a page imports them."""
    require_node()
    built: Path = installed_package(tmp_path_factory.mktemp("typescript")) / "dist"
    return {f"/client/{module.name}": module.read_text() for module in built.glob("*.js")}


@pytest.fixture
def open_client(app: Site, issue: IssueToken, modules: dict[str, str]) -> Callable[..., dict[str, Any]]:
    """Return what opens a page with the client and a new token, and returns the token."""

    def opened(page: Page, query: str = "") -> dict[str, Any]:
        token = issue(allowed_origins=[app.origin])
        app.pages.update(modules)
        app.show(PAGE)
        page.goto(f"{app.origin}/?token={token['token']}&url={token['upload_url'].partition('/api/')[0]}{query}")
        page.wait_for_selector("body[data-ready=yes]")
        return token

    return opened


def test_upload_from_a_page_has_progress_and_a_rejection_its_sentence(
    page: Page, open_client: Callable[..., dict[str, Any]], client: ApiClient
) -> None:
    token = open_client(page)
    throttle(page)(1_000_000)
    page.set_input_files("#file", LARGE)
    expect(page.locator("#out")).to_contain_text("large.txt", timeout=30_000)
    steps = page.evaluate("steps")
    assert len(steps) >= 10
    assert (steps, steps[-1]) == (sorted(steps), 1)
    page.set_input_files("#file", EXE)
    expect(page.locator("#out")).to_contain_text(
        "extension_not_allowed: Dateien vom Typ EXE werden hier nicht angenommen."
    )
    files = data(client.get(f"/upload-tokens/{token['token_id']}"))["files"]
    assert [file["outcome"] for file in files] == ["accepted", "rejected"]


def test_resumable_upload_from_a_page_goes_on_after_a_lost_part(
    context: BrowserContext, open_client: Callable[..., dict[str, Any]], client: ApiClient
) -> None:
    page = context.new_page()  # the browser writes the lost part to its console
    token = open_client(page, "&resumable")
    methods = cut_first_part(page)
    page.set_input_files("#file", LARGE)
    expect(page.locator("#out")).to_contain_text("large.txt", timeout=30_000)
    assert methods == ["PATCH", "HEAD", "PATCH", "PATCH", "PATCH"]
    (file,) = data(client.get(f"/upload-tokens/{token['token_id']}"))["files"]
    assert data(client.get(f"/files/{file['file_id']}/metadata"))["size_bytes"] == len(LARGE["buffer"])
