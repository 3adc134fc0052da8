"""Instructions for sending files into a context: code with the real address of the service, one way at a time."""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from sluice.console.visit import Visit
from sluice.contexts import Context
from sluice.kit.paging import PageRequest

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


async def show(visit: Visit) -> Response:
    """Show the code for one context, by default the newest, in one way, by default with curl."""
    contexts = (await visit.services.contexts.list_page(visit.tenant_id, "active", _CONTEXTS_SHOWN)).items
    asked, way = visit.asked("context"), visit.asked("way")
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
        snippets=[(each, _filled(each.text, values)) for each in WAYS[way]],
    )


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text.strip()
