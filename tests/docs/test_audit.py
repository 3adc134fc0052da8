"""The audit of dependencies against a service of advisories: it asks of every pinned library, and fails for one with a known vulnerability."""

import json
import os
import re
import subprocess
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
"""Name, version, and for which machines: `sys_platform == 'win32'`, or nothing."""
ADVISORY = {"id": "GHSA-xxxx-yyyy-zzzz", "summary": "lets strangers in", "details": "", "affected": []}


@dataclass
class Advisories:
    """A service of advisories (OSV's `query`): what it was asked about, and what it knows."""

    url: str = ""
    asked: set[tuple[str, str]] = field(default_factory=set)


@contextmanager
def advisories(known: Mapping[str, Any]) -> Iterator[Advisories]:
    """Run a service that knows these vulnerabilities by the library's name, until the block ends."""
    service = Advisories()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            service.asked.add((name, asked["version"]))
            body = json.dumps({"vulns": [known[name]]} if name in known else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        service.url = f"http://127.0.0.1:{server.server_port}/v1/query"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield service
        server.shutdown()
        thread.join()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SLUICE_AUDIT_OSV_URL": url}
    command = [str(ROOT / "scripts" / "audit_dependencies.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)


@pytest.mark.asvs("15.2.1")
def test_every_pinned_library_is_asked_for() -> None:
    with advisories({}) as service:
        done = audit(service.url)
    assert (done.returncode, done.stdout) == (0, "No pinned library has a known vulnerability.\n")
    wanted = {(name.lower(), version) for name, version, machines in PINNED if not machines or Marker(machines).evaluate()}
    assert {(name.lower(), version) for name, version in service.asked} == wanted
    assert len(wanted) > 30


@pytest.mark.asvs("15.2.1")
def test_a_library_with_a_known_vulnerability_fails_the_audit() -> None:
    name, version = next((name, version) for name, version, _ in PINNED if name == "pillow")
    with advisories({name: ADVISORY}) as service:
        done = audit(service.url)
    assert done.returncode == 1
    assert re.search(rf"{name}\s+{re.escape(version)}\s+GHSA-xxxx-yyyy-zzzz", done.stdout), done.stdout


def test_where_nobody_knows_of_advisories_the_audit_says_so() -> None:
    done = audit("http://127.0.0.1:9/v1/query")
    assert (done.returncode, done.stdout) == (0, "Not audited: no index with advisories can be reached.\n")


@pytest.mark.asvs("15.1.1")
def test_the_policy_has_a_time_for_each_severity_and_for_updates() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Libraries")[2].partition("\n## ")[0]
    times = dict(re.findall(r"^\| ([\w ,.]+?) \| within (\d+) days", policy, re.MULTILINE))
    assert list(times) == ["critical", "high", "medium, low", "new releases without a vulnerability"]
    assert list(map(int, times.values())) == sorted(map(int, times.values()))
    assert "`make audit`" in policy
