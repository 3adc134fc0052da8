"""The dependency audit against an advisory service: it queries every pinned library and fails for a vulnerable one."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from packaging.markers import Marker

from tests.docs.pages import ROOT

pytest.importorskip("pip_audit", reason="the lock brings it")

PINS = re.compile(r"^([\w.-]+)==([^\s;\\]+)(?: ; ([^\\]+?))? \\$", re.MULTILINE)
PINNED = PINS.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
"""Name, version and environment marker, such as `sys_platform == 'win32'` or an empty text."""
ADVISORY = {"id": "GHSA-xxxx-yyyy-zzzz", "summary": "lets strangers in", "details": "", "affected": []}


@dataclass
class AdvisoryService:
    """A running advisory service with OSV's `query` endpoint: its URL and the (name, version) pairs queried so far."""

    url: str = ""
    queried: set[tuple[str, str]] = field(default_factory=set)


@contextmanager
def running_advisory_service(known: Mapping[str, Any]) -> Iterator[AdvisoryService]:
    """Run a service with these advisories, keyed by library name, until the block ends."""
    service = AdvisoryService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = query["package"]["name"]
            service.queried.add((name, query["version"]))
            body = json.dumps({"vulns": [known[name]]} if name in known else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        service.url = f"http://127.0.0.1:{server.server_port}/v1/query"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield service
        server.shutdown()
        thread.join()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SLUICE_AUDIT_OSV_URL": url}
    command = [str(ROOT / "scripts" / "audit_dependencies.sh"), sys.executable]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.asvs("15.2.1")
def test_audit_queries_every_pinned_library() -> None:
    with running_advisory_service({}) as service:
        done = audit(service.url)
    assert (done.returncode, done.stdout) == (0, "No pinned library has a known vulnerability.\n")
    expected = {(name.lower(), version) for name, version, marker in PINNED if not marker or Marker(marker).evaluate()}
    assert {(name.lower(), version) for name, version in service.queried} == expected
    assert len(expected) > 30


@pytest.mark.asvs("15.2.1")
def test_audit_fails_for_a_vulnerable_library() -> None:
    name, version = next((name, version) for name, version, _ in PINNED if name == "pillow")
    with running_advisory_service({name: ADVISORY}) as service:
        done = audit(service.url)
    assert done.returncode == 1
    assert re.search(rf"{name}\s+{re.escape(version)}\s+GHSA-xxxx-yyyy-zzzz", done.stdout), done.stdout


def test_audit_passes_with_a_notice_without_advisories() -> None:
    done = audit("http://127.0.0.1:9/v1/query")
    assert (done.returncode, done.stdout) == (0, "Not audited: no index with advisories can be reached.\n")


@pytest.mark.asvs("15.1.1")
def test_policy_has_a_deadline_per_severity_and_for_updates() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Libraries")[2].partition("\n## ")[0]
    times = dict(re.findall(r"^\| ([\w ,.]+?) \| within (\d+) days", policy, re.MULTILINE))
    assert list(times) == ["critical", "high", "medium, low", "new releases without a vulnerability"]
    assert list(map(int, times.values())) == sorted(map(int, times.values()))
    assert "`make audit`" in policy
