"""The TypeScript client in Node, on a running server: types, methods, uploads, and signatures of webhooks."""

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluice.outgoing.signature import new_secret, signed_headers
from tests.api.responses import data, page
from tests.api.samples import TEXT
from tests.clients.typescript import (
    OPENAPI,
    PACKAGE,
    ROOT,
    copy_of_package,
    require_node,
    run_program,
    tsc,
    write_schema,
)
from tests.deployments import Deployments
from tests.docs.pages import blocks
from tests.servers import free_port
from tests.servers.faults import FaultProxy, fault_proxy
from tests.servers.threads import in_a_thread
from tests.service import ApiClient, Service, running_service

LARGE = b"\x07\x1b" + bytes(range(256)) * 4_000
HEAD = f"""
import {{ ApiError, FileRejected, Sluice, verifyWebhook }} from "@sluice/client";
const [url, credential, ...words] = process.argv.slice(2);
const sluice = new Sluice({{ url, credential }});
const show = (value) => console.log(JSON.stringify(value));
const large = new Blob([Uint8Array.from({{ length: {len(LARGE)} }}, (_, at) => at < 2 ? [7, 27][at] : (at - 2) % 256)]);
"""
CHUNK = 256 * 1024
USER = """
import { ApiError, FileRejected, Sluice, verifyWebhook } from "@sluice/client";

const sluice = new Sluice({ url: "https://files.example.com", credential: async () => "sl_live_1" });

export async function send(file: File): Promise<string> {
  try {
    const stored = await sluice.upload(file, { context: "claims", metadata: { claim: 7 }, onProgress: (sent) => sent });
    return stored.file_id;
  } catch (error) {
    if (error instanceof FileRejected && error.reason === "blank_document") return error.report.message;
    if (error instanceof ApiError) return `${error.status}`;
    throw error;
  }
}

export async function names(): Promise<string[]> {
  await sluice.contexts.create({ context_key: "claims", display_name: "Claims" }); // what has a default may be left out
  const found: string[] = [];
  const claims = sluice.files.list({ context: "claims", "metadata.claim": "7" });
  for await (const file of claims) found.push(file.original_filename);
  for await (const event of sluice.events.follow({ after: "evt_1" })) found.push(event.type);
  return found;
}

export async function take(request: Request, secret: string): Promise<string | undefined> {
  const event = await verifyWebhook(await request.text(), request.headers, secret);
  return event.type === "file.rejected" ? event.data.reason : undefined;
}
"""
NAMES = """
declare module "node:fs" { export function openAsBlob(path: string): Promise<Blob>; }
declare const file: File, input: { files: File[] }, bar: { value: number }, request: Request;
declare const credential: string, uploadToken: string, secret: string, lastEventId: string;
declare const show: (text: string) => void, tell: typeof show, handle: (event: object) => void;
"""
"""What the programs of the pages have around them."""
MISTAKES = {
    'sluice.contexts.create({ context_key: "claims" });': "display_name",
    'sluice.files.list({ size: "1" });': "size",
    'sluice.contexts.list({ status: "gone" });': "gone",
    "(await sluice.reports.get('rep_1')).id;": "id",
}
"""Statements that must not compile, with a word of the reason."""


@pytest.fixture(scope="module", autouse=True)
def _with_node() -> None:
    require_node()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, compiled as strictly as `npm run build` does."""
    made = tmp_path_factory.mktemp("typescript")
    package = copy_of_package(made)
    write_schema(package)
    tsc(cwd=package)
    return made


@pytest.fixture(scope="module")
def proxied(deployments: Deployments) -> Iterator[tuple[Service, FaultProxy]]:
    """A service whose public address is that of a proxy, so that whatever a client sends passes it."""
    port = free_port()
    with (
        running_service(deployments.fresh("sqlite-local"), PUBLIC_URL=f"http://127.0.0.1:{port}") as service,
        in_a_thread(fault_proxy(service.url, port=port)) as proxy,
    ):
        yield service, proxy


@dataclass(frozen=True)
class User:
    """A tenant whose programs run in a folder with the package, behind a proxy."""

    client: ApiClient
    proxy: FaultProxy
    folder: Path

    def run(self, program: str, *words: str) -> Any:
        """Run a program that has a client `sluice` of the tenant, and prints what `show` is given."""
        key = str(self.client.authorization).removeprefix("Bearer ")
        return run_program(self.folder, HEAD + program, self.proxy.endpoint, key, *words)

    def is_large(self, file_id: str) -> bool:
        checksum = f"sha256:{hashlib.sha256(LARGE).hexdigest()}"
        return bool(data(self.client.get(f"/files/{file_id}/metadata"))["checksum"] == checksum)

    def stored_ids(self) -> list[str]:
        return [each["file_id"] for each in page(self.client.get("/files"))[0]]


@pytest.fixture
def user(proxied: tuple[Service, FaultProxy], folder: Path) -> User:
    service, proxy = proxied
    proxy.sent = 0
    return User(service.new_client(), proxy, folder)


def shown_programs(folder: Path) -> Iterator[Path]:
    """Write each block of code that the pages of the client show as a module into the folder."""
    pages = (ROOT / "docs" / "clients" / "typescript.md", PACKAGE / "README.md")
    shown = [block for page in pages for block in blocks(page.read_text(), "ts")]
    assert len(shown) >= 6
    for number, block in enumerate(shown):
        needed = [] if "new Sluice(" in block else ['declare const sluice: import("@sluice/client").Sluice;']
        path = folder / f"shown{number}.mts"
        path.write_text("\n".join((*needed, block, "export {};")))
        yield path


def test_package_and_program_of_a_user_compile_strictly_and_mistakes_do_not(folder: Path) -> None:
    user = folder / "user.mts"
    flags = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]
    flags.append("--skipDefaultLibCheck")  # of TypeScript's own files alone
    wrong = [f"export async function f{number}() {{ {each} }}" for number, each in enumerate(MISTAKES)]
    user.write_text("\n".join((USER, *wrong)))
    programs = [user, folder / "names.d.ts", *shown_programs(folder)]
    (folder / "names.d.ts").write_text(NAMES)
    output = tsc(*flags, *programs, cwd=folder, fails=True)
    complaints = [line for line in output.splitlines() if "error TS" in line]
    first = USER.count("\n") + 2
    for number, (complaint, word) in enumerate(zip(complaints, MISTAKES.values(), strict=True)):
        assert complaint.startswith(f"user.mts({first + number},"), output
        assert word in complaint


def test_package_has_the_element_that_the_service_serves(tmp_path: Path) -> None:
    package = tmp_path / "clients" / "typescript"
    (package / "dist").mkdir(parents=True)
    served = Path("server", "src", "sluice", "api", "pages", "static", "sluice-upload.js")
    (tmp_path / served).parent.mkdir(parents=True)
    shutil.copy(ROOT / served, tmp_path / served)
    described = json.loads((PACKAGE / "package.json").read_text())
    subprocess.run(described["scripts"]["element"], shell=True, cwd=package, check=True)
    element = package / described["exports"]["./element"]
    assert element.read_bytes() == (ROOT / served).read_bytes()
    assert described["exports"]["./element"] in described["sideEffects"]


def test_package_has_no_dependencies_and_no_names_of_hosts_in_its_lock() -> None:
    described = json.loads((PACKAGE / "package.json").read_text())
    assert not {"dependencies", "peerDependencies", "optionalDependencies"} & described.keys()
    packages = json.loads((PACKAGE / "package-lock.json").read_text())["packages"].values()
    assert [each for each in packages if "resolved" in each] == []


def test_every_operation_has_a_method_or_a_reason(user: User) -> None:
    """Call every method with a client that records its requests, and compare them with the OpenAPI document."""
    program = """
import { NOT_BY_NAME, OPERATIONS } from "@sluice/client";
const asked = [];
const recording = new Sluice({ url: "http://x", credential: "c", fetch: async (url, { method }) => {
  asked.push(`${method} ${new URL(url).pathname}`);
  return new Response('{"data": [], "pagination": {"total_pages": 1}}');
} });
for (const [noun, methods] of Object.entries(recording)) {
  if (noun === "uploads") continue;
  for (const [name, method] of Object.entries(methods)) {
    const made = method("first", name === "addExample" ? new File(["a"], "second") : "second", {});
    if (name === "follow") await made.return(); // never ends
    else if (made[Symbol.asyncIterator]) await made[Symbol.asyncIterator]().next();
    else await made;
  }
}
show({ asked, OPERATIONS, NOT_BY_NAME });
"""
    found = user.run(program)
    wanted = {
        operation["operationId"]: f"{method.upper()} {path}"
        for path, methods in json.loads(OPENAPI.read_text())["paths"].items()
        for method, operation in methods.items()
    }
    named = {name: operation for name, operation in wanted.items() if name not in found["NOT_BY_NAME"]}
    assert found["OPERATIONS"] == named
    assert found["NOT_BY_NAME"].keys() <= wanted.keys()
    assert all(len(reason) > 20 for reason in found["NOT_BY_NAME"].values())
    asked = "\n".join(found["asked"])
    for name, operation in named.items():
        pattern = re.sub(r"\{\w+\}", "(first|second)", operation)
        assert re.search(f"^{pattern}$", asked, re.MULTILINE), name


def test_lists_are_read_page_by_page(user: User) -> None:
    made = [user.client.create_context() for _ in range(5)]
    program = """
const keys = [];
for await (const context of sluice.contexts.list({ page_size: 2 })) keys.push(context.context_key);
const { items, pagination } = await sluice.contexts.list({ page: 3, page_size: 2 }).page();
const types = [];
for await (const event of sluice.events.list({ limit: 2 })) types.push(event.type);
show({ keys, last: items.length, total: pagination.total, types });
"""
    found = user.run(program)
    assert (sorted(found["keys"]), found["last"], found["total"]) == (sorted(made), 1, 5)


def test_small_upload_has_progress_and_a_rejection_its_report(user: User) -> None:
    context = user.client.create_context(allowed_extensions=["txt", "bin"])
    program = """
const [context] = words, steps = [];
const onProgress = (sent, total) => steps.push(sent / total);
const stored = await sluice.upload(large, { context, filename: "a.bin", metadata: { claim: "C-7" }, onProgress });
const german = new Sluice({ url, credential, language: "de" });
const refused = await german.upload(new Blob(["MZ"]), { context, filename: "setup.exe" }).catch((error) => error);
const { report } = await sluice.validate(new Blob(["MZ"]), { context, filename: "setup.exe" });
const nowhere = await sluice.upload(new Blob(["x"]), { context: "none", filename: "a.txt" }).catch((error) => error);
const { status, code, reason, message } = refused;
show({ steps, stored, refused: [refused instanceof FileRejected, status, code, reason, message], report: refused.report,
  dry: report.reason, nowhere: [nowhere.name, nowhere.status, nowhere.code] });
"""
    found = user.run(program, context)
    assert found["stored"]["metadata"] == {"claim": "C-7"}
    assert user.is_large(found["stored"]["file_id"])
    assert len(found["steps"]) >= 10
    assert (found["steps"], found["steps"][-1]) == (sorted(found["steps"]), 1)
    sentence = "Dateien vom Typ EXE werden hier nicht angenommen."
    assert found["refused"][:4] == [True, 400, "file_rejected", "extension_not_allowed"]
    assert sentence in found["refused"][4]
    assert (found["report"]["message"], found["dry"]) == (found["refused"][4], "extension_not_allowed")
    assert found["nowhere"] == ["ApiError", 404, "not_found"]


def test_upload_whose_response_is_lost_is_sent_again_and_stored_once(user: User) -> None:
    context = user.client.create_context()
    user.proxy.lost.append(b"file_id")
    program = 'show(await sluice.upload(new Blob([words[1]]), { context: words[0], filename: "a.txt" }))'
    found = user.run(program, context, TEXT.decode())
    assert user.proxy.lost == []
    assert user.stored_ids() == [found["file_id"]]


def test_retries_wait_as_long_as_they_are_asked_to_and_a_change_is_not_repeated(user: User) -> None:
    program = """
const responses = (...all) => async (url, init) => {
  asked.push([init.method, Date.now(), new Headers(init.headers).get("Idempotency-Key")]);
  const [status, headers] = all.length > 1 ? all.shift() : all[0];
  if (status === 0) throw new TypeError("fetch failed");
  return new Response('{"message": "m", "errors": [], "data": {"file_id": "f"}}', { status, headers });
};
const asked = [], busy = [429, { "Retry-After": "1" }];
const tried = async (fetch, act) => {
  asked.length = 0;
  const client = new Sluice({ url, credential, fetch, retries: 1 });
  const outcome = await act(client).then(() => "done", (error) => `${error.name} ${error.status ?? ""}`.trim());
  return [outcome, asked.length];
};
const blob = new Blob(["x"]);
const waited = await tried(responses(busy, [201, {}]), (client) => client.upload(blob, { filename: "a" }));
const pause = asked[1][1] - asked[0][1], isSameKey = asked[0][2] !== null && asked[0][2] === asked[1][2];
show({ waited, pause, isSameKey, outcomes: [
  await tried(responses([503, {}], [201, {}]), (client) => client.upload(blob, { filename: "a" })),
  await tried(responses([0]), (client) => client.contexts.get("a")),
  await tried(responses([0]), (client) => client.apiKeys.create({ name: "a", scopes: ["upload"] })),
  await tried(responses([500, {}]), (client) => client.apiKeys.create({ name: "a", scopes: ["upload"] })),
  await tried(responses([429, { "Retry-After": "3600" }]), (client) => client.contexts.get("a")),
  await tried(responses([404, {}]), (client) => client.contexts.get("a")),
] });
"""
    found = user.run(program)
    assert found["waited"] == ["done", 2]
    assert found["pause"] >= 990
    assert found["isSameKey"]
    outcomes = [["done", 2], ["ConnectionFailed", 2], ["ConnectionFailed", 1]]
    assert found["outcomes"] == [*outcomes, *([f"ApiError {status}", 1] for status in (500, 429, 404))]


def test_credential_goes_to_its_own_host_only_and_an_offset_that_stays_ends_the_upload(user: User) -> None:
    program = """
const asked = [];
const elsewhere = "https://elsewhere.example/api/v1/uploads/upl_1";
const headers = { "Upload-Offset": "0", "Upload-Length": "300000", Location: elsewhere };
const fetch = async (url, { method }) => {
  asked.push(`${method} ${url}`);
  return new Response(method === "GET" ? '{"data": {}}' : null, { status: method === "POST" ? 201 : 200, headers });
};
const client = new Sluice({ url, credential, fetch, retries: 1 });
const part = { resumable: true, chunkSize: 262144, filename: "a" };
const described = (error) => [error.name, error.message];
const outcome = await client.upload(new Blob(["x".repeat(300000)]), part).catch(described);
await client.uploads.get(elsewhere);
await client.uploads.cancel(elsewhere);
const sent = asked.length;
const ids = [];
for (const id of ["", ".", ".."]) ids.push((await (async () => client.contexts.get(id))().catch(described))[0]);
show({ asked, outcome, ids, more: asked.length - sent });
"""
    found = user.run(program)
    own = f"{user.proxy.endpoint}/api/v1/uploads"
    sent = [f"POST {own}", f"PATCH {own}/upl_1", f"HEAD {own}/upl_1", f"PATCH {own}/upl_1"]
    assert found["asked"] == [*sent, f"GET {own}/upl_1", f"DELETE {own}/upl_1"]
    assert found["outcome"][0] == "ConnectionFailed"
    assert (found["ids"], found["more"]) == (["SluiceError"] * 3, 0)


def test_large_upload_goes_on_where_the_connection_was_cut(user: User) -> None:
    context = user.client.create_context()
    user.proxy.cuts += [400_000, 800_000]
    user.proxy.lost.append(b"sluice-file-id: ")
    program = f"""
const [context] = words, steps = [];
const onProgress = (sent, total) => steps.push(sent / total);
const options = {{ context, filename: "a.zzz", metadata: {{ claim: "ä" }}, resumable: true, chunkSize: {CHUNK} }};
show({{ stored: await sluice.upload(large, {{ ...options, onProgress }}), steps }});
"""
    found = user.run(program, context)
    assert (user.proxy.cuts, user.proxy.lost) == ([], [])
    assert (found["stored"]["metadata"], found["stored"]["original_filename"]) == ({"claim": "ä"}, "a.zzz")
    assert user.is_large(found["stored"]["file_id"])
    assert user.stored_ids() == [found["stored"]["file_id"]]
    assert len(found["steps"]) >= 10
    assert user.proxy.sent < 1.8 * len(LARGE)


def test_large_upload_goes_on_in_another_process(user: User) -> None:
    context = user.client.create_context()
    begin = f"""
const stop = new AbortController();
const options = {{ context: words[0], filename: "a.zzz", resumable: true, chunkSize: {CHUNK}, signal: stop.signal }};
let kept;
const fault = await sluice.upload(large, {{ ...options, onUploadUrl: (url) => {{ kept = url; }},
  onProgress: (sent) => {{ if (sent > {2 * CHUNK}) stop.abort(); }} }}).catch((error) => error.name);
show({{ kept, fault, ...(await sluice.uploads.get(kept)) }});
"""
    begun = user.run(begin, context)
    assert (begun["fault"], begun["state"], begun["offset"] >= 2 * CHUNK) == ("AbortError", "open", True)
    user.proxy.sent = 0
    go_on = """
const [uploadUrl] = words;
const another = await sluice.upload(new Blob(["other"]), { filename: "a.zzz", uploadUrl }).catch((error) => error.message);
show({ another, stored: await sluice.upload(large, { filename: "a.zzz", uploadUrl }),
  again: await sluice.upload(large, { filename: "a.zzz", uploadUrl }) });
"""
    found = user.run(go_on, begun["kept"])
    assert "another file" in found["another"]
    assert found["stored"] == found["again"]
    assert user.is_large(found["stored"]["file_id"])
    assert user.proxy.sent < 0.6 * len(LARGE)


def test_large_upload_is_rejected_with_its_report(user: User) -> None:
    program = """
const [context] = words, options = { context, resumable: true };
const rejected = [];
for (const [blob, filename] of [[large, "a.png"], [large, "a.exe"], [new Blob([]), "a.txt"]]) {
  const error = await sluice.upload(blob, { ...options, filename }).catch((error) => error);
  rejected.push([error.name, error.reason, error.report.message === error.message]);
}
show(rejected);
"""
    rejected = user.run(program, user.client.create_context(allowed_extensions=["png", "txt"]))
    reasons = ("corrupt_file", "extension_not_allowed", "blank_document")
    assert rejected == [["FileRejected", reason, True] for reason in reasons]


def test_webhook_is_verified_but_no_changed_or_old_one(user: User) -> None:
    secret, now = new_secret(), int(time.time())
    body = json.dumps({"type": "file.stored", "data": {"name": "ä"}}).encode()
    right = signed_headers([secret], "evt_1", now, body)
    cases = {
        "right": (right, body),
        "two secrets": (signed_headers([new_secret(), secret], "evt_1", now, body), body),
        "other secret": (signed_headers([new_secret()], "evt_1", now, body), body),
        "changed": (right, body + b" "),
        "other id": (right | {"webhook-id": "evt_2"}, body),
        "old": (signed_headers([secret], "evt_1", now - 301, body), body),
        "no signature": ({"webhook-id": "evt_1", "webhook-timestamp": str(now)}, body),
        "no base64": (right | {"webhook-signature": "v1,#"}, body),
    }
    program = """
const [secret, cases] = words, outcomes = {};
for (const [name, [headers, body]] of Object.entries(JSON.parse(cases)))
  outcomes[name] = await verifyWebhook(body, headers, secret).then((event) => event.type, (error) => error.name);
const [headers, body] = Object.values(JSON.parse(cases))[0];
const event = await verifyWebhook(new TextEncoder().encode(body), new Headers(headers), ["whsec_AAAA", secret]);
outcomes.bytes = event.data.name;
show(outcomes);
"""
    written = json.dumps({name: (headers, content.decode()) for name, (headers, content) in cases.items()})
    outcomes = user.run(program, secret, written)
    verified = {name: outcomes.pop(name) for name in ("right", "two secrets", "bytes")}
    assert verified == {"right": "file.stored", "two secrets": "file.stored", "bytes": "ä"}
    assert set(outcomes.values()) == {"WebhookInvalid"}
