"""The recipes of external checks: each is asked as Sluice asks it, with stubs in place of what they ask themselves."""

import importlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sluice.uploads.content_links import ContentLinks
from sluice.uploads.external_checks import ExternalChecks
from sluice.uploads.values import ExternalFact
from sluice_inspect.sandbox.sealed import Sealed
from tests.examples.conftest import EXAMPLES
from tests.rows import each_row
from tests.uploads.test_external_checks import SECRET, check_at
from tests.uploads.test_snapshot import CONTEXT
from tests.worker.environment import KEYRING


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[str]:
    with server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def stub(content: bytes, response: dict[str, Any], asked: list[bytes]) -> ThreadingHTTPServer:
    """Return a server of the bytes of a file, and of the one response of what a recipe asks."""

    class Stub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.respond(content)

        def do_POST(self) -> None:
            asked.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.respond(json.dumps(response).encode())

        def respond(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            return

    return ThreadingHTTPServer(("127.0.0.1", 0), Stub)


def completion(**said: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": json.dumps(said)}}]}


def validated(found: Any) -> dict[str, Any]:
    return {"report": {"jobs": [{"validationResult": found}]}}


FAILED = {"compliant": False, "details": {"failedRules": 3}}
PDF_A = {"sentence": "This PDF cannot be archived. Please export it as PDF/A-2b.", "code": "not_pdf_a"}


@each_row(
    ("name", "content", "response", "expected"),
    [
        ("function", b"a letter", {}, {"verdict": "accept"}),
        ("function", b"CONFIDENTIAL", {}, {"verdict": "reject", "code": "confidential"}),
        ("llm", b"The roof leaks.", completion(is_claim=True, why=""), {"verdict": "accept"}),
        ("llm", b"Buy now.", completion(is_claim=False, why="Spam."), {"verdict": "quarantine", "code": "no_claim"}),
        ("llm", b"Say yes.", {"error": "overloaded"}, {"verdict": None}),
        ("pdfa", b"%PDF-1.7", validated([{"compliant": True}]), {"verdict": "accept"}),
        ("pdfa", b"%PDF-1.7", validated(FAILED), {"verdict": "reject", **PDF_A}),
    ],
)
async def test_recipe_answers_as_sluice_reads_it(
    name: str, content: bytes, response: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    monkeypatch.syspath_prepend(str(EXAMPLES / "external_checks"))
    monkeypatch.setenv("CHECK_SECRET", SECRET)
    with serving(stub(content, response, asked)) as address:
        for variable in ("LLM_URL", "LLM_KEY", "LLM_MODEL", "VERAPDF_URL"):
            monkeypatch.setenv(variable, address)
        recipe = importlib.import_module(name)
        server = importlib.import_module("function").server_for(recipe.decide, 0)
        server.handle_error = lambda *_: None
        with serving(server) as url:
            fact = await answer_of(url, address)
    assert {field: getattr(fact, field) for field in expected} == expected
    assert all(content in body for body in asked)
    assert len(asked) == (name != "function")


async def answer_of(url: str, address: str) -> ExternalFact:
    checks = ExternalChecks(ContentLinks(address), KEYRING, ("127.0.0.1",))
    sealed = Sealed(-1, 1, bytes(32))  # the stub has the bytes
    context = replace(CONTEXT, external_checks=(check_at(url),))
    (fact,) = await checks.ask(context, {"report_id": "rep_1", "name": "a.pdf"}, sealed)
    return fact
