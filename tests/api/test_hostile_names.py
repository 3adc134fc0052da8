"""Hostile texts in every field that accepts one: each is kept as sent or refused, and never becomes part of a path."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath

import httpx
import pytest

from tests.api.responses import data
from tests.api.samples import TEXT
from tests.attacks import HOSTILE_LINES, files_of_names, naughty_strings, needs_attacks
from tests.run_length import LONG_RUN
from tests.service import ApiClient

pytestmark = [needs_attacks, pytest.mark.timeout(1800 if LONG_RUN else 300)]
_REFUSALS = {400, 404, 422}
STEP = 1 if LONG_RUN else 12
"""The short run sends each twelfth text, and each fourth name: `uploads/test_names` reads all of them."""
_HOSTILE_FILES = "stored only under a generated key"


def _is_kept(sent: str, shown: object) -> bool:
    return isinstance(shown, str) and unicodedata.normalize("NFC", sent) == unicodedata.normalize("NFC", shown)


def _accepted_data(response: httpx.Response) -> Mapping[str, object] | None:
    """Return the data of a success, or None for an error; fail for any other status."""
    assert response.status_code in {200, 201} | _REFUSALS, (response.status_code, response.text[:300])
    return data(response, response.status_code) if response.status_code < 400 else None


def _assert_generated_keys(client: ApiClient, names: list[str]) -> None:
    """Assert that every object key holds an id, and nothing of the file name but its extension."""
    for key in client.object_keys():
        assert ".." not in PurePosixPath(key).parts
        assert not any(len(name) > 8 and name in key for name in names), key


@pytest.mark.asvs("5.3.2")
def test_every_hostile_file_name_is_kept_or_refused(client: ApiClient) -> None:
    context = client.create_context(reject_corrupt_files=False, reject_blank_files=False, scan_for_viruses=False)
    lists = files_of_names(HOSTILE_LINES)
    lines = [line for _, content in lists for line in content.split(b"\n")][:: 1 if LONG_RUN else 4]
    outcomes = Counter(_accepted_data(client.upload(line, TEXT, context=context)) is not None for line in lines)
    assert len(lists) == 16
    assert outcomes[True] > len(lines) // 4
    _assert_generated_keys(client, [line.decode("utf-8", "replace") for line in lines])


@pytest.mark.asvs("5.3.2")
def test_every_hostile_file_is_stored_under_a_generated_key_or_refused(client: ApiClient) -> None:
    context = client.create_context()
    files = files_of_names(_HOSTILE_FILES)
    outcomes: Counter[str] = Counter()
    for name, content in files:
        response = client.upload(name, content, context=context)
        kept = _accepted_data(response)
        outcomes["stored" if kept else response.json()["errors"][0].partition(":")[0]] += 1
    assert len(files) == 108
    _assert_generated_keys(client, [name for name, _ in files])


@pytest.mark.asvs("1.3.3", "2.2.1")
def test_every_naughty_string_is_kept_or_refused_in_every_field(client: ApiClient) -> None:
    context, key = client.create_context(), client.create_key("upload")
    open_context = client.create_context(reject_corrupt_files=False, reject_blank_files=False, scan_for_viruses=False)
    strings = naughty_strings()[::STEP]
    outcomes: Counter[tuple[str, bool]] = Counter()

    def count(field: str, shown: Mapping[str, object] | None) -> None:
        outcomes[field, shown is not None] += 1

    for text in strings:
        count("template", _accepted_data(client.patch(f"/contexts/{context}", {"storage_path_template": text})))
        count("context key", _accepted_data(client.post("/contexts", {"context_key": text, "display_name": "x"})))
        changes = {"display_name": text, "description": text}
        shown = _accepted_data(client.patch(f"/contexts/{context}", changes))
        assert shown is None or all(_is_kept(text, shown[field]) for field in changes), text
        count("words of a context", shown)
        shown = _accepted_data(client.patch(f"/contexts/{context}", {"metadata": {text: text}}))
        assert shown is None or shown["metadata"] == {text: text}, text
        count("metadata", shown)
        shown = _accepted_data(client.patch(f"/api-keys/{key.api_key_id}", {"name": text}))
        assert shown is None or _is_kept(text, shown["name"]), text
        count("name of a key", shown)
        name = text.encode("utf-8", "surrogatepass")
        count("name of a file", _accepted_data(client.upload(name, TEXT, context=open_context, metadata={text: text})))
        assert client.get("/files", context=text, uploaded_by=text).status_code in {200, 422}, text
    assert {"words of a context", "metadata", "name of a key", "name of a file"} <= {
        field for field, kept in outcomes if kept
    }
    _assert_generated_keys(client, strings)


@pytest.mark.asvs("2.2.1")
def test_naughty_string_in_a_header_causes_no_server_error(client: ApiClient) -> None:
    for text in naughty_strings()[::STEP]:
        value = text.encode("utf-8", "surrogatepass")
        if value != value.strip() or any(byte < 0x20 or byte == 0x7F for byte in value):
            continue  # no client sends this, and the framing refuses it: see tests/http1
        for name in ("Authorization", "User-Agent", "If-None-Match", "X-Forwarded-For"):
            credential = [] if name == "Authorization" else [(b"Authorization", str(client.authorization).encode())]
            headers = [(name.encode(), value), *credential]
            response = client.service.http.get("/api/v1/contexts", headers=headers)
            assert response.status_code in {200, 400, 401, 429}, (name, text, response.text[:200])
