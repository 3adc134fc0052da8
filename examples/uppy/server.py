"""The page with Uppy, and an upload token for each visitor. The files go from the page to Sluice directly."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sluice_client import Sluice

PORT = int(os.environ.get("PORT", "8080"))
ORIGIN = f"http://127.0.0.1:{PORT}"
PAGE = Path(__file__).with_name("index.html")
UPPY = Path(os.environ.get("UPPY", "node_modules/uppy/dist"))  # `npm install uppy`
FILES = {"/": (PAGE, "text/html"), "/uppy.mjs": (UPPY / "uppy.min.mjs", "text/javascript")}
FILES["/uppy.css"] = (UPPY / "uppy.min.css", "text/css")

sluice = Sluice()  # reads SLUICE_URL and SLUICE_API_KEY, which stay on the server


class Handler(BaseHTTPRequestHandler):
    """Answers the page, its library, and new tokens."""

    def do_GET(self) -> None:
        """Send a file of the page."""
        if self.path not in FILES:
            self.send_error(404)
            return
        path, media_type = FILES[self.path]
        self._send(path.read_bytes(), media_type)

    def do_POST(self) -> None:
        """Make a token; an application does so for visitors who are signed in."""
        token = sluice.upload_tokens.create("claims", max_files=3, allowed_origins=[ORIGIN])
        self._send(json.dumps({"token": token.token, "tus_url": token.tus_url}).encode(), "application/json")

    def _send(self, body: bytes, media_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", f"{media_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
