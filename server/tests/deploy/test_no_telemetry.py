"""The service connects to what its settings name and to nothing else: no telemetry, no check for updates."""

import json
import re
from pathlib import Path

import httpx

import sluice as sluice_package
import sluice_inspect
from tests.cli.commands import first_key, has_started, sluice_in
from tests.servers import daemon, free_port
from tests.service import cli_command

# Written as text into documents, namespaces and examples; nothing connects there.
NAMED_ONLY = re.compile(
    r"(localhost|127\.0\.0\.1|0\.0\.0\.0|.*\.?example(\.(com|org))?|.*\.invalid|www\.w3\.org|schemas\..*|purl\.org"
    r"|openoffice\.org|ns\.adobe\.com"
    r"|www|host|purl\.oclc\.org|www\.idpf\.org|www\.standardwebhooks\.com|www\.eicar\.org|tus\.io|iana\.org"
    # called for a container of Azure that a client of a directory opens
    r"|login\.microsoftonline\.(com|us)|login\.partner\.microsoftonline\.cn"
    # names of what editors write into SVG
    r"|www\.inkscape\.org|sodipodi\.sourceforge\.net|www\.bohemiancoding\.com|creativecommons\.org|web\.resource\.org"
    r"|www\.serif\.com|(xmlns\.)?boxy-svg\.com|vectornator\.io|www\.figma\.com)"
)
_HOOK = """
import json, os, sys
def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        line = json.dumps([event, repr(arguments[1] if event != "socket.getaddrinfo" else arguments[0])])
        fd = os.open(os.environ["SEEN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, (line + "\\n").encode())
        os.close(fd)
sys.addaudithook(hook)
"""


def test_a_server_looks_up_and_connects_to_nothing_but_itself(tmp_path: Path) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(_HOOK)
    port, log, seen = free_port(), tmp_path / "log", tmp_path / "seen"
    source = str(Path(sluice_package.__file__).parents[1])
    own = {"PYTHONPATH": f"{tmp_path / 'hook'}:{source}", "SEEN": str(seen)}
    environment = sluice_in(tmp_path / "empty", PORT=str(port)).environment | own
    with daemon(cli_command("serve"), log, ready=lambda: has_started(port, log), environment=environment):
        key = first_key(log.read_text())
        headers = {"Authorization": f"Bearer {key}"}
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30)
        body = {"context_key": "a", "display_name": "A"}
        assert client.post("/api/v1/contexts", json=body).status_code == 201
        sent = client.post("/api/v1/files/upload", data={"context": "a"}, files={"file": ("a.txt", b"Hello")})
        assert sent.status_code == 201
        assert client.get("/docs").status_code == client.get("/health/ready").status_code == 200
        client.close()
    lines = [json.loads(line) for line in seen.read_text().splitlines()]
    assert ["socket.getaddrinfo", "'127.0.0.1'"] in lines, "the hook saw the server look for its own address"
    assert not [line for line in lines if "127.0.0.1" not in line[1] and "clamd" not in line[1]], lines


def test_the_code_names_no_host_to_connect_to() -> None:
    found = set()
    for package in (sluice_package, sluice_inspect):
        assert package.__file__ is not None
        for path in Path(package.__file__).parent.rglob("*"):
            if path.suffix in {".py", ".js", ".css", ".html", ".json"}:
                found |= set(re.findall(r"https?://([A-Za-z0-9.-]*[A-Za-z0-9])", path.read_text(errors="replace")))
    assert not {host for host in found if not NAMED_ONLY.fullmatch(host)}
