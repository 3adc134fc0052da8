"""An external check of Sluice: a Python function, and the server that answers questions with what it returns."""

import json
import os
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from standardwebhooks import Webhook


def server_for(decide: Callable[[dict[str, Any]], dict[str, Any]], port: int) -> ThreadingHTTPServer:
    """Return a server that answers each question with what `decide` returns. Other senders get no answer."""
    webhook = Webhook(os.environ["CHECK_SECRET"])

    class Check(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = json.dumps(decide(webhook.verify(body, headers))).encode()  # raises unless Sluice has signed it
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    return ThreadingHTTPServer(("127.0.0.1", port), Check)


def content_of(question: dict[str, Any]) -> bytes:
    """Return the bytes of the file: their link works until the question is answered."""
    return httpx.get(question["content"]["url"], timeout=10).raise_for_status().content


def decide(question: dict[str, Any]) -> dict[str, Any]:
    """Accept a file unless it is marked as confidential."""
    if b"CONFIDENTIAL" in content_of(question):
        return {"verdict": "reject", "sentence": "Please remove the confidential pages.", "code": "confidential"}
    return {"verdict": "accept"}


if __name__ == "__main__":
    server_for(decide, 8400).serve_forever()
