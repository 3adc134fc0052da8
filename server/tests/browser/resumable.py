"""Resumable uploads from pages of another origin: by tus-js-client, by Uppy, and by `<sluice-upload>`."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, Route, expect

from tests.api.responses import data
from tests.api.troubles import CONTENT, troubled_service
from tests.browser.conftest import IssueToken, renamed, require_packages
from tests.browser.element import CHOOSER, open_element, row
from tests.browser.sites import Site
from tests.deployments import Deployments
from tests.service import ApiClient

LARGE: FilePayload = {
    "name": "large.txt",
    "mimeType": "text/plain",
    "buffer": b"a line of text, and one more of it\n" * 270_000,  # 9 MB: more than the element sends in one request
}
FALSE: FilePayload = {**LARGE, "name": "false.png", "mimeType": "image/png"}
TUS_JS = """
<input type="file" id="file"><output id="out"></output>
<script src="/node_modules/tus-js-client/dist/tus.min.js"></script>
<script>
  document.getElementById("file").onchange = (event) => {
    const query = new URLSearchParams(location.search), file = event.target.files[0];
    new tus.Upload(file, {
      endpoint: query.get("url"), chunkSize: 2_000_000, retryDelays: [100, 200],
      headers: {Authorization: `Bearer ${query.get("token")}`}, metadata: {filename: file.name, filetype: file.type},
      onSuccess: ({lastResponse}) => { out.value = `stored ${lastResponse.getHeader("Sluice-File-Id")}`; },
      onError: (error) => { out.value = JSON.parse(error.originalResponse.getBody()).report.message; },
    }).start();
  };
</script>
"""
UPPY = """
<input type="file" id="file"><output id="out"></output>
<script type="module">
  import {Uppy, Tus} from "/node_modules/uppy/dist/uppy.min.mjs";
  const query = new URLSearchParams(location.search);
  const uppy = new Uppy({autoProceed: true}).use(Tus, {
    endpoint: query.get("url"), chunkSize: 2_000_000, retryDelays: [100, 200],
    headers: {Authorization: `Bearer ${query.get("token")}`}, allowedMetaFields: ["filename", "filetype"],
  });
  let sentence;
  uppy.on("upload-success", (file, response) => { sentence = `stored ${response.uploadURL}`; });
  uppy.on("upload-error", (file, error) => {
    sentence = JSON.parse(error.originalResponse.getBody()).report.message;
  });
  uppy.on("complete", () => {
    out.value = sentence;
    uppy.clear();
  });
  document.getElementById("file").onchange = (event) => {
    for (const file of event.target.files)
      uppy.addFile({name: file.name, type: file.type, data: file, meta: {filename: file.name, filetype: file.type}});
  };
  document.body.dataset.ready = "yes";
</script>
"""
MISMATCH = "The name of this file says PNG, but its content is something else"


@pytest.fixture
def token(app: Site, issue: IssueToken, client: ApiClient) -> dict[str, Any]:
    context = client.create_context(allowed_extensions=["txt", "png"], max_file_size_mb=20)
    return issue(context=context, allowed_origins=[app.origin])


def outcomes(client: ApiClient, token: dict[str, Any]) -> list[str]:
    return [file["outcome"] for file in data(client.get(f"/upload-tokens/{token['token_id']}"))["files"]]


def cut_first_part(page: Page) -> list[str]:
    """Lose the first part that is appended; return the methods of all requests to uploads."""
    methods: list[str] = []

    def handle(route: Route) -> None:
        methods.append(route.request.method)
        if methods.count("PATCH") == 1 and methods[-1] == "PATCH":
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/v1/uploads/*", handle)
    return methods


@pytest.mark.parametrize("body", [TUS_JS, UPPY], ids=["tus-js-client", "uppy"])
def test_client_of_others_resumes_and_reads_both_verdicts(
    context: BrowserContext, app: Site, client: ApiClient, token: dict[str, Any], body: str
) -> None:
    require_packages()
    page = context.new_page()  # the clients write what failed to the console
    app.show(f"<main>{body}</main><script>document.body.dataset.ready ??= ''</script>")
    page.goto(f"{app.origin}/?token={token['token']}&url={token['tus_url']}")
    if body is UPPY:
        page.wait_for_selector("body[data-ready=yes]")
    methods = cut_first_part(page)
    page.set_input_files("#file", LARGE)
    expect(page.locator("#out")).to_contain_text("stored", timeout=30_000)
    assert "HEAD" in methods
    page.set_input_files("#file", FALSE)
    expect(page.locator("#out")).to_contain_text(MISMATCH, timeout=30_000)
    assert outcomes(client, token) == ["accepted", "rejected"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("body", [TUS_JS, UPPY], ids=["tus-js-client", "uppy"])
def test_client_of_others_stores_one_file_through_cuts_an_unavailable_scanner_and_a_lost_response(
    context: BrowserContext, app: Site, deployments: Deployments, tmp_path: Path, body: str
) -> None:
    require_packages()
    patient = body.replace("[100, 200]", "Array(300).fill(100)")
    page = context.new_page()
    app.show(f"<main>{patient}</main><script>document.body.dataset.ready ??= ''</script>")
    with troubled_service(deployments, tmp_path / "clamd") as troubles:
        named = troubles.client.create_context(max_file_size_mb=50)
        body_of_token = {"context": named, "allowed_origins": [app.origin]}
        token = data(troubles.client.post("/upload-tokens", body_of_token), 201)
        page.goto(f"{app.origin}/?token={token['token']}&url={token['tus_url']}")
        if body is UPPY:
            page.wait_for_selector("body[data-ready=yes]")
        page.set_input_files("#file", {"name": "a.zzz", "mimeType": "application/octet-stream", "buffer": CONTENT})
        with troubles.scanner():
            expect(page.locator("#out")).to_contain_text("stored", timeout=60_000)
        troubles.assert_stored_once()
        page.close()


def test_element_sends_large_files_in_parts_and_goes_on_after_a_lost_one(
    context: BrowserContext, app: Site, client: ApiClient, token: dict[str, Any]
) -> None:
    page = context.new_page()
    open_element(page, app, token, tus_endpoint=token["tus_url"])
    methods = cut_first_part(page)
    page.locator(CHOOSER).set_input_files(LARGE)
    expect(row(page, "large.txt")).to_contain_text("Thank you, this file has arrived.", timeout=30_000)
    assert methods == ["PATCH", "HEAD", "PATCH", "PATCH"]
    (stored,) = page.evaluate("events")
    assert data(client.get(f"/files/{stored['fileId']}/metadata"))["size_bytes"] == len(LARGE["buffer"])


def test_element_sends_its_token_to_no_other_host_than_its_endpoints(
    context: BrowserContext, app: Site, token: dict[str, Any]
) -> None:
    page, elsewhere = context.new_page(), list[str]()
    open_element(page, app, token, tus_endpoint=token["tus_url"])
    page.on("request", lambda request: elsewhere.append(request.url) if "elsewhere" in request.url else None)

    def created_elsewhere(route: Route) -> None:
        fetched = route.fetch()
        location = fetched.headers.get("location", "").replace(
            fetched.url.partition("/api/")[0], "https://elsewhere.example"
        )
        route.fulfill(response=fetched, headers={**fetched.headers, "location": location})

    page.route("**/api/v1/uploads", created_elsewhere)
    page.locator(CHOOSER).set_input_files(LARGE)
    expect(row(page, "large.txt")).to_contain_text("Thank you, this file has arrived.", timeout=30_000)
    assert elsewhere == []


def test_element_shows_the_sentence_for_a_rejected_large_file(page: Page, app: Site, token: dict[str, Any]) -> None:
    open_element(page, app, token, tus_endpoint=token["tus_url"])
    page.locator(CHOOSER).set_input_files([FALSE, renamed(LARGE, "large.exe")])
    expect(row(page, "false.png")).to_contain_text(MISMATCH, timeout=30_000)
    expect(row(page, "large.exe")).to_contain_text("Files of the kind EXE are not accepted here.")
