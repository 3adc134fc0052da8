"""A small web server for the pages of an application, on an origin of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Self

_PACKAGES = Path(__file__).parent / "node_modules"
_MEDIA_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".html": "text/html"}


@dataclass(frozen=True)
class Site:
    """A running web server. `pages` are served by their paths, and npm packages below `/node_modules/`.

    The media type is that of the path's suffix, or else HTML.
    """

    origin: str
    pages: dict[str, str] = field(default_factory=dict)
    visited: list[str] = field(default_factory=list)

    def show(self, body: str, path: str = "/") -> str:
        """Serve a page with this body; return its URL."""
        self.pages[path] = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Application</title>'
            f'<link rel="icon" href="data:,"></head><body>{body}</body></html>'
        )
        return self.origin + path

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Serve on a free port of the loopback interface until the block ends."""
        site: Self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.visited.append(self.path)
                path = self.path.partition("?")[0]
                content, suffix = site.pages.get(path, "").encode(), PurePosixPath(path).suffix or ".html"
                package = (_PACKAGES / path.removeprefix("/node_modules/")).resolve()
                if path.startswith("/node_modules/") and package.is_relative_to(_PACKAGES.resolve()):
                    content, suffix = package.read_bytes(), package.suffix
                self.send_response(200 if content else 404)
                self.send_header("Content-Type", f"{_MEDIA_TYPES.get(suffix, 'text/plain')}; charset=utf-8")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        site = cls(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
