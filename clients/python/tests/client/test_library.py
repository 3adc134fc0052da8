"""The library by itself, without a server."""

import json
import subprocess
import sys

import pytest

import sluice_client
from sluice_client import InvalidWebhook, sign_webhook, verify_webhook
from sluice_client.core import segment
from tests.rows import each_row

SECRET = "whsec_c2VjcmV0"
EVENT = {
    "id": "evt_1",
    "sequence": 1,
    "type": "file.stored",
    "timestamp": "2026-11-27T12:00:00Z",
    "api_version": "v1",
    "tenant_id": "ten_1",
    "data": {},
}


def test_every_name_of_the_package_can_be_imported() -> None:
    assert all(getattr(sluice_client, name) for name in sluice_client.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = sluice_client.Nothing


def test_webhook_that_was_signed_for_a_test_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice_client.verify.time.time", lambda: 1_000_000.0)
    body = json.dumps(EVENT).encode()
    headers = sign_webhook(body, SECRET, message_id="evt_1", timestamp=1_000_000)
    assert verify_webhook(body, headers, SECRET).type == "file.stored"
    with pytest.raises(InvalidWebhook):
        verify_webhook(body + b" ", headers, SECRET)


@each_row("text", ["", ".", ".."])
def test_text_that_would_be_another_path_is_no_segment(text: str) -> None:
    with pytest.raises(ValueError, match="expected an id or a key"):
        segment(text)


def test_commands_load_nothing_of_the_server() -> None:
    script = "import sys, sluice_client.cli.app; print([name for name in sys.modules if name.startswith('sluice.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
