"""Start an installed `sluice`, upload a first file, and look at its pages: `python scripts/first_upload.py PROGRAM`.

Words behind the program are a command that is run then, with the server's SLUICE_URL and SLUICE_API_KEY. Exits with 1 and says what is missing. Uses nothing of this repository, so that it shows what an installation holds.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

_START_SECONDS: Final = 120.0
_PAGES: Final = {
    "/docs": "swagger-ui",
    "/docs/swagger-ui-bundle.js": "SwaggerUIBundle",
    "/openapi.json": '"openapi"',
    "/static/sluice-upload.js": "sluice-upload",
    "/console/login": "<html",
    "/api/v1/messages/de": "locale",
}


def _fetch(url: str, *, headers: dict[str, str], body: bytes | None = None) -> str:
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310  (a loopback address)
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        text: str = response.read().decode()
        return text


def _started(process: "subprocess.Popen[bytes]", log: Path) -> tuple[str, str]:
    """Return address and key of the server when it has printed both."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        output = log.read_text()
        if "Ctrl-C drains" in output:
            (url,), (kept,) = (
                re.findall(r"^Sluice serves (\S+)$", output, re.MULTILINE),
                re.findall(r"^  api key  in (\S+), ", output, re.MULTILINE),
            )
            return url, Path(kept).read_text().strip()
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text()}")


def _try(url: str, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    context = json.dumps({"context_key": "claims", "display_name": "Claims"}).encode()
    _fetch(f"{url}/api/v1/contexts", headers=headers | {"Content-Type": "application/json"}, body=context)
    form = (
        '--b\r\nContent-Disposition: form-data; name="context"\r\n\r\nclaims\r\n--b\r\n'
        'Content-Disposition: form-data; name="file"; filename="hello.txt"\r\n\r\nHello, Sluice!\r\n--b--\r\n'
    )
    headers_of_form = headers | {"Content-Type": "multipart/form-data; boundary=b"}
    response = json.loads(_fetch(f"{url}/api/v1/files/upload", headers=headers_of_form, body=form.encode()))
    if response["status"] != "SUCCESS":
        raise SystemExit(f"the first upload was not accepted: {response}")
    for path, expected in _PAGES.items():
        if expected not in _fetch(f"{url}{path}", headers=headers):
            raise SystemExit(f"{path} is not what it should be")


def main() -> None:
    """Start the program in an empty folder, try it, stop it."""
    program = str(Path(sys.argv[1]).absolute())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = folder / "log"
        environment = {"PATH": os.environ["PATH"], "SLUICE_PORT": "0", "SLUICE_SCANNER": "builtin"}
        with log.open("wb") as file:
            process = subprocess.Popen([program, "serve"], cwd=folder, env=environment, stdout=file, stderr=file)
        try:
            url, key = _started(process, log)
            _try(url, key)
            if sys.argv[2:]:
                subprocess.run(sys.argv[2:], env={**os.environ, "SLUICE_URL": url, "SLUICE_API_KEY": key}, check=True)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
    if code:
        raise SystemExit(f"the server ended with {code}")


if __name__ == "__main__":
    main()
