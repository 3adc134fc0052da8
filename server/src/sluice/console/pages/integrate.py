"""Instructions for sending files into a context: code with the real address, one way at a time, and test uploads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from starlette.responses import Response

from sluice.api.routes.upload import store_for
from sluice.console.pages.history import report_of
from sluice.console.templating import query
from sluice.console.visit import Visit, redirect, uploader_of
from sluice.contexts import Context
from sluice.errors import FileRejected, Invalid, LimitExceeded
from sluice.kit.clock import utc_now
from sluice.kit.paging import PageRequest
from sluice.uploads.report import VerdictReport
from sluice.uploads.samples import Sample, failing_sample, passing_sample

_CONTEXTS_SHOWN: Final = PageRequest(1, 100)


@dataclass(frozen=True, slots=True)
class Snippet:
    """Code that works as it stands once `{url}` and `{context}` are replaced, and what to know about it."""

    title: str
    about: str
    text: str


_CURL: Final = r"""
curl -H "Authorization: Bearer $SLUICE_API_KEY" \
  -F context={context} -F file=@document.pdf \
  {url}/api/v1/files/upload
"""
_CURL_REJECTED: Final = r"""
printf '' | curl -H "Authorization: Bearer $SLUICE_API_KEY" \
  -F context={context} -F 'file=@-;filename=empty.pdf' \
  {url}/api/v1/files/upload
"""
_PYTHON: Final = """
import os
from sluice_client import FileRejected, Sluice

with Sluice(os.environ["SLUICE_API_KEY"], base_url="{url}") as client:
    try:
        stored = client.files.upload("document.pdf", context="{context}")
        print(stored.file_id)
    except FileRejected as rejection:
        print(rejection.reason, rejection.report and rejection.report.message)
"""
_TYPESCRIPT: Final = """
import { openAsBlob } from "node:fs";
import { FileRejected, Sluice } from "@sluice/client";

const sluice = new Sluice({ url: "{url}", credential: process.env.SLUICE_API_KEY });
const file = new File([await openAsBlob("document.pdf")], "document.pdf");
try {
  const stored = await sluice.upload(file, { context: "{context}" });
  console.log(stored.file_id);
} catch (error) {
  if (!(error instanceof FileRejected)) throw error;
  console.log(error.reason, error.message);
}
"""
_VISITOR: Final = r"""
curl -H "Authorization: Bearer $SLUICE_API_KEY" -H "Content-Type: application/json" \
  -d '{"context": "{context}", "max_files": 1, "allowed_origins": ["https://app.example.com"]}' \
  {url}/api/v1/upload-tokens
"""
_BROWSER: Final = """
import { FileRejected, Sluice } from "@sluice/client";

const sluice = new Sluice({ url: "{url}", credential: uploadToken });
try {
  const stored = await sluice.upload(input.files[0], { onProgress: (sent, total) => (bar.value = sent / total) });
  show(stored.file_id);
} catch (error) {
  if (!(error instanceof FileRejected)) throw error;
  show(error.message); // for the sender
}
"""
_ELEMENT: Final = """
<script type="module" src="{url}/static/sluice-upload.js"></script>
<sluice-upload token="ut_live_…" endpoint="{url}/api/v1/files/upload">
  What stands here is shown where there is no script.
</sluice-upload>
"""
_FORM: Final = """
<form action="{url}/u/ut_live_…" method="post" enctype="multipart/form-data">
  <input type="file" name="file" multiple>
  <button>Send</button>
</form>
"""
_UPPY: Final = """
import Uppy from "@uppy/core";
import Tus from "@uppy/tus";

const uppy = new Uppy({ meta: { context: "{context}" } }).use(Tus, {
  endpoint: "{url}/api/v1/uploads",
  headers: { Authorization: `Bearer ${token}` },
  allowedMetaFields: ["context", "filename"],
});
uppy.on("file-added", (file) => uppy.setFileMeta(file.id, { filename: file.name }));
"""
_TUS: Final = """
import { Upload } from "tus-js-client";

new Upload(file, {
  endpoint: "{url}/api/v1/uploads",
  headers: { Authorization: `Bearer ${token}` },
  metadata: { context: "{context}", filename: file.name },
  chunkSize: 8 * 1024 * 1024,
  retryDelays: [0, 1000, 5000],
}).start();
"""
_MAKE_TOKEN: Final = Snippet(
    "Upload token", "Your server makes one for each visitor; no key ever reaches a page.", _VISITOR
)
WAYS: Final[dict[str, tuple[Snippet, ...]]] = {
    "curl": (
        Snippet("Send a file", "", _CURL),
        Snippet("Make one fail", "An empty file is rejected wherever blank or damaged files are.", _CURL_REJECTED),
    ),
    "Python": (Snippet("Send a file", "pip install sluice-client", _PYTHON),),
    "TypeScript": (Snippet("Send a file from a server", "npm install @sluice/client, Node 20 or newer", _TYPESCRIPT),),
    "Browser": (_MAKE_TOKEN, Snippet("Send a file from a page", "npm install @sluice/client", _BROWSER)),
    "Element": (_MAKE_TOKEN, Snippet("Element", "Choose, drop, progress and the answer, without a build.", _ELEMENT)),
    "HTML form": (
        _MAKE_TOKEN,
        Snippet("Form", "Without JavaScript; the token's redirects say where the sender is led next.", _FORM),
    ),
    "Uppy": (_MAKE_TOKEN, Snippet("Uppy", "Resumable uploads by tus 1.0.", _UPPY)),
    "tus": (_MAKE_TOKEN, Snippet("tus-js-client", "Resumable uploads by tus 1.0.", _TUS)),
}


async def send_test(visit: Visit) -> Response:
    """Upload a sample of the service into a context, as every upload, and show what came out.

    Its file is one of a test key: it counts against no plan, and is deleted after a day.
    """
    context = await visit.services.contexts.get(visit.tenant_id, visit.sent("context"))
    sample = _samples(context).get(visit.sent("sample"))
    if sample is None:
        raise Invalid("sample: expected one that the rules of this context accept or reject")
    filename, make = sample
    caller, read_caller = uploader_of(visit, replace(visit.principal, is_test=True))
    try:
        stored = await store_for(
            visit.services,
            caller,
            read_caller,
            context_key=context.context_key,
            filename=filename,
            content=make(utc_now().microsecond),
            metadata={"test_upload": True},
        )
        report_id = stored.report_id
    except (FileRejected, LimitExceeded) as rejected:
        if not isinstance(rejected.report, VerdictReport):
            raise
        report_id = rejected.report.report_id
    shown = {"context": context.context_key, "way": visit.asked("way"), "tested": report_id}
    return redirect(f"/console/integrate{query(shown)}")


def _samples(context: Context) -> Mapping[str, Sample]:
    """Return the samples for a context: one to `pass`, and one to `fail`, as far as there are."""
    samples = {"pass": passing_sample(context), "fail": failing_sample(context)}
    return {name: sample for name, sample in samples.items() if sample is not None}


async def show(visit: Visit) -> Response:
    """Show the code for one context, by default the newest, in one way, by default with curl."""
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, "active", _CONTEXTS_SHOWN)).items
    asked, way = visit.asked("context") or visit.sent("context") or None, visit.asked("way")
    tested = visit.asked("tested")
    context: Context | None = next((each for each in contexts if each.context_key == asked), None)
    if context is None and asked is not None:
        context = await visit.services.contexts.get(visit.tenant_id, asked)
    context = context or (contexts[0] if contexts else None)
    way = way if way in WAYS else "curl"
    values = {"{url}": visit.services.public_url, "{context}": context.context_key if context else ""}
    return visit.page(
        "integrate/show.html",
        contexts=contexts,
        context=context,
        way=way,
        ways=tuple(WAYS),
        samples={} if context is None else _samples(context),
        tested=None if tested is None else await report_of(visit, tested),
        snippets=[(each, _filled(each.text, values)) for each in WAYS[way]],
    )


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text.strip()
