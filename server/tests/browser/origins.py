"""Pages of an application on another origin than the service: what they send, and what they can read."""

import math
import wave
from io import BytesIO
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.api.responses import data
from tests.api.samples import pdf, picture
from tests.browser.conftest import EXE, NOTE, IssueToken, require_packages, watch_console
from tests.browser.sites import Site
from tests.service import API, ApiClient

FETCH = """
<input type="file" id="file"><output id="out"></output>
<script>
  document.getElementById("file").onchange = async (event) => {
    const form = new FormData();
    form.append("file", event.target.files[0]);
    const query = new URLSearchParams(location.search);
    try {
      const response = await fetch(query.get("url"), {method: "POST", body: form,
        headers: {Authorization: `Bearer ${query.get("token")}`}});
      const body = await response.json();
      out.value = `${response.status} ${body.report?.message ?? body.data?.original_filename ?? body.message}`;
    } catch (fault) { out.value = `unreadable: ${fault.name}`; }
  };
</script>
"""
XHR = """
<input type="file" id="file"><output id="out"></output>
<script>
  window.steps = [];
  document.getElementById("file").onchange = (event) => {
    const form = new FormData(), xhr = new XMLHttpRequest(), query = new URLSearchParams(location.search);
    form.append("file", event.target.files[0]);
    xhr.open("POST", query.get("url"));
    xhr.setRequestHeader("Authorization", `Bearer ${query.get("token")}`);
    xhr.upload.onprogress = (progress) => steps.push(progress.loaded / progress.total);
    xhr.onload = () => { out.value = `${xhr.status} ${JSON.parse(xhr.responseText).message}`; };
    xhr.send(form);
  };
</script>
"""
UPPY_XHR = """
<input type="file" id="file"><output id="out"></output>
<script type="module">
  import {Uppy, XHRUpload} from "/node_modules/uppy/dist/uppy.min.mjs";
  const query = new URLSearchParams(location.search);
  const uppy = new Uppy({autoProceed: true}).use(XHRUpload, {
    endpoint: query.get("url"), fieldName: "file", headers: {Authorization: `Bearer ${query.get("token")}`},
    shouldRetry: () => false,
  });
  let sentence;
  uppy.on("upload-success", (file, response) => { sentence = `stored ${response.body.data.file_id}`; });
  uppy.on("upload-error", (file, error) => { sentence = JSON.parse(error.request.responseText).report.message; });
  uppy.on("complete", () => {
    out.value = sentence;
    uppy.clear();
  });
  document.getElementById("file").onchange = (event) => {
    for (const file of event.target.files) uppy.addFile({name: file.name, type: file.type, data: file});
  };
  document.body.dataset.ready = "yes";
</script>
"""


def open_page(page: Page, site: Site, body: str, token: dict[str, Any], url: str | None = None) -> None:
    site.show(body)
    page.goto(f"{site.origin}/?token={token['token']}&url={url or token['upload_url']}")


def test_fetch_of_a_listed_origin_reads_success_rejection_and_that_its_token_is_over(
    page: Page, app: Site, issue: IssueToken, client: ApiClient
) -> None:
    token = issue(allowed_origins=[app.origin])
    open_page(page, app, FETCH, token)
    page.set_input_files("#file", NOTE)
    expect(page.locator("#out")).to_have_text("201 note.txt")
    page.set_input_files("#file", EXE)
    expect(page.locator("#out")).to_contain_text("400 Files of the kind EXE are not accepted here.")
    client.delete(f"/upload-tokens/{token['token_id']}")
    page.set_input_files("#file", NOTE)
    expect(page.locator("#out")).to_have_text("401 Invalid or missing API key")


def test_fetch_of_a_listed_origin_reads_errors_before_routing(page: Page, app: Site, issue: IssueToken) -> None:
    token = issue(allowed_origins=[app.origin])
    long = token["upload_url"] + "/" + "x" * 20_000
    unknown = token["upload_url"].replace("/files/upload", "/nowhere")
    read = (
        "url => fetch(url, {method: 'POST'}).then(async response => [response.status, (await response.json()).status])"
    )
    open_page(page, app, FETCH, token)
    for url, status in ((unknown, 404), (long, 431), (token["upload_url"], 401)):
        assert page.evaluate(read, url) == [status, "ERROR"]


@pytest.mark.parametrize("is_listed_by_another", [False, True])
def test_page_of_another_origin_reads_no_answer(
    context: BrowserContext, app: Site, elsewhere: Site, issue: IssueToken, *, is_listed_by_another: bool
) -> None:
    page = context.new_page()
    watch_console(page)  # each blocked response is an error there
    token = issue(allowed_origins=[app.origin])
    if is_listed_by_another:
        issue(allowed_origins=[elsewhere.origin])
    open_page(page, elsewhere, FETCH, token)
    for file in (NOTE, EXE):
        page.set_input_files("#file", file)
        expect(page.locator("#out")).to_have_text("unreadable: TypeError")
        page.locator("#out").evaluate("out => { out.value = ''; }")


def test_xhr_of_a_listed_origin_sees_its_progress(page: Page, app: Site, issue: IssueToken) -> None:
    open_page(page, app, XHR, issue(allowed_origins=[app.origin]))
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"line of text\n" * 300_000})
    expect(page.locator("#out")).to_have_text("201 File uploaded")
    assert page.evaluate("steps.at(-1)") == 1


def test_uppy_shows_the_sentence_for_the_sender(context: BrowserContext, app: Site, issue: IssueToken) -> None:
    require_packages()
    page = context.new_page()  # Uppy writes each rejection to the console
    open_page(page, app, UPPY_XHR, issue(allowed_origins=[app.origin]))
    page.wait_for_selector("body[data-ready]")
    page.set_input_files("#file", EXE)
    expect(page.locator("#out")).to_contain_text("Files of the kind EXE are not accepted here.")
    page.set_input_files("#file", NOTE)
    expect(page.locator("#out")).to_contain_text("stored file_")


def link(client: ApiClient, name: str, content: bytes, **query: Any) -> str:
    stored = data(client.upload(name, content, context=client.create_context()), 201)
    return str(data(client.get(f"/files/{stored['file_id']}", **query))["download_url"])


def allow(client: ApiClient, *origins: str) -> None:
    data(client.request("PUT", "/cors", json={"allowed_origins": list(origins)}))


READ = "url => fetch(url).then(response => response.text(), fault => fault.name)"


def test_page_of_a_listed_origin_fetches_a_file_by_its_link(page: Page, app: Site, client: ApiClient) -> None:
    allow(client, app.origin)
    page.goto(app.show("<p>files</p>"))
    assert page.evaluate(READ, link(client, "note.txt", NOTE["buffer"])) == NOTE["buffer"].decode()
    changed = link(client, "note.txt", NOTE["buffer"] * 2).replace("expires=", "expires=1")
    assert "Download link invalid or expired" in page.evaluate(READ, changed)


def test_page_of_another_origin_fetches_no_file(context: BrowserContext, elsewhere: Site, client: ApiClient) -> None:
    allow(client, "https://app.example.com")
    page = context.new_page()
    page.goto(elsewhere.show("<p>files</p>"))
    assert page.evaluate(READ, link(client, "note.txt", NOTE["buffer"])) == "TypeError"


SHOW = """url => new Promise(resolve => {
  const image = new Image();
  image.onload = () => resolve(image.naturalWidth);
  image.onerror = () => resolve("blocked");
  image.src = url;
})"""
DURATION = """new Promise(resolve => {
  const media = document.querySelector("video, audio");
  const look = () => media.error ? resolve(-1) : media.readyState ? resolve(media.duration) : setTimeout(look, 50);
  look();
})"""


def test_page_shows_a_picture_by_an_inline_link_of_a_tenant_that_lists_it(
    page: Page, context: BrowserContext, app: Site, client: ApiClient
) -> None:
    unlisted = context.new_page()
    unlisted.goto(app.show("<p>pictures</p>"))
    assert unlisted.evaluate(SHOW, link(client, "dent.png", picture(), disposition="inline")) == "blocked"
    allow(client, app.origin)
    page.goto(app.show("<p>pictures</p>"))
    assert page.evaluate(SHOW, link(client, "dent.png", picture(), disposition="inline")) == 64


def test_picture_is_shown_at_its_own_address(page: Page, client: ApiClient) -> None:
    page.goto(link(client, "dent.png", picture(), disposition="inline"))
    assert page.evaluate("document.images[0].naturalWidth") == 64
    assert page.evaluate("window.origin") == "null", "not sandboxed"


def test_recording_is_played_at_its_own_address(page: Page, client: ApiClient) -> None:
    sound = BytesIO()
    with wave.open(sound, "wb") as recording:
        recording.setparams((1, 2, 8000, 0, "NONE", ""))
        tone = (int(9000 * math.sin(at / 4)) for at in range(8000))
        recording.writeframes(b"".join(value.to_bytes(2, "little", signed=True) for value in tone))
    page.goto(link(client, "voice.wav", sound.getvalue(), disposition="inline"))
    assert page.evaluate(DURATION) == 1


def test_pdf_is_opened_and_not_saved(page: Page, client: ApiClient) -> None:
    url = link(client, "letter.pdf", pdf(), disposition="inline")
    headers = page.request.get(url).headers
    assert headers["content-type"] == "application/pdf"
    assert headers["content-disposition"].startswith("inline")
    if page.evaluate("navigator.pdfViewerEnabled"):  # Debian's shell for tests has no viewer, and saves every PDF
        response = page.goto(url)
        assert response is not None
        assert response.status == 200
        assert page.evaluate("document.contentType") == "application/pdf"


def test_attachment_is_saved_and_not_shown(page: Page, client: ApiClient) -> None:
    url = link(client, "dent.png", picture())
    page.goto("about:blank")
    with page.expect_download() as download:
        page.evaluate("url => { location.href = url; }", url)
    assert download.value.suggested_filename == "dent.png"
    assert API in download.value.url
