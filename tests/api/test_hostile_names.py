"""Hostile names and texts in every field that takes one: each is kept as it was sent or refused, never half of it, and never shapes a path."""

import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePosixPath

import httpx
import pytest

from tests.api.answers import data
from tests.api.samples import TEXT
from tests.attacks import HOSTILE_LINES, beside, listed, naughty_strings
from tests.gate import Gate
from tests.length import WHOLE

pytestmark = [beside, pytest.mark.timeout(1800 if WHOLE else 300)]

_REFUSED = {400, 404, 422}
_FILES = "stored only under a generated key"


def _strings() -> list[str]:
    """Answer the naughty strings: all of them in the whole form, every twelfth in the short one."""
    return naughty_strings()[:: 1 if WHOLE else 12]


def _is_kept(sent: str, shown: object) -> bool:
    return isinstance(shown, str) and unicodedata.normalize("NFC", sent) == unicodedata.normalize("NFC", shown)


def _judged(answer: httpx.Response) -> Mapping[str, object] | None:
    """Answer what was accepted, None of a refusal; anything else is a fault."""
    assert answer.status_code in {200, 201} | _REFUSED, (answer.status_code, answer.text[:300])
    return data(answer, answer.status_code) if answer.status_code < 400 else None


def _stored_apart(gate: Gate, names: list[str]) -> None:
    """Hold every object's key to hold an id, and nothing of what the file was called but its extension."""
    for key in gate.objects():
        assert ".." not in PurePosixPath(key).parts
        assert not any(len(name) > 8 and name in key for name in names), key


@pytest.mark.asvs("5.3.2")
def test_every_line_of_the_lists_is_a_name_that_is_kept_or_refused(gate: Gate) -> None:
    context = gate.context(reject_corrupt_files=False, reject_blank_files=False, scan_for_viruses=False)
    lists = listed(HOSTILE_LINES)
    lines = [line for _, content in lists for line in content.split(b"\n")]
    ends = Counter(_judged(gate.upload(line, TEXT, context=context)) is not None for line in lines)
    assert len(lists) == 16
    assert ends[True] > 100
    _stored_apart(gate, [line.decode("utf-8", "replace") for line in lines])


@pytest.mark.asvs("5.3.2")
def test_every_hostile_file_is_stored_under_a_key_of_ours_or_refused(gate: Gate) -> None:
    context = gate.context()
    files = listed(_FILES)
    ends: Counter[str] = Counter()
    for name, content in files:
        answer = gate.upload(name, content, context=context)
        kept = _judged(answer)
        ends["stored" if kept else answer.json()["errors"][0].partition(":")[0]] += 1
    assert len(files) == 108
    _stored_apart(gate, [name for name, _ in files])


@pytest.mark.asvs("1.3.3", "2.2.1")
def test_every_naughty_string_is_kept_as_it_is_or_refused_in_every_field(gate: Gate) -> None:
    context, key = gate.context(), gate.key("upload")
    open_context = gate.context(reject_corrupt_files=False, reject_blank_files=False, scan_for_viruses=False)
    strings = _strings()
    ends: Counter[tuple[str, bool]] = Counter()

    def note(field: str, shown: Mapping[str, object] | None) -> None:
        ends[field, shown is not None] += 1

    for text in strings:
        note("template", _judged(gate.patch(f"/contexts/{context}", {"storage_path_template": text})))
        note("context key", _judged(gate.post("/contexts", {"context_key": text, "display_name": "x"})))
        changes = {"display_name": text, "description": text}
        shown = _judged(gate.patch(f"/contexts/{context}", changes))
        assert shown is None or all(_is_kept(text, shown[field]) for field in changes), text
        note("words of a context", shown)
        shown = _judged(gate.patch(f"/contexts/{context}", {"metadata": {text: text}}))
        assert shown is None or shown["metadata"] == {text: text}, text
        note("metadata", shown)
        shown = _judged(gate.patch(f"/api-keys/{key.api_key_id}", {"name": text}))
        assert shown is None or _is_kept(text, shown["name"]), text
        note("name of a key", shown)
        name = text.encode("utf-8", "surrogatepass")
        note("name of a file", _judged(gate.upload(name, TEXT, context=open_context, metadata={text: text})))
        assert gate.get("/files", context=text, uploaded_by=text).status_code in {200, 422}, text
    assert {field for field, kept in ends if kept} >= {"words of a context", "metadata", "name of a key", "name of a file"}
    _stored_apart(gate, strings)


@pytest.mark.asvs("2.2.1")
def test_a_naughty_string_in_a_header_is_no_credential_and_no_fault(gate: Gate) -> None:
    for text in _strings():
        value = text.encode("utf-8", "surrogatepass")
        if value != value.strip() or any(byte < 0x20 or byte == 0x7F for byte in value):
            continue  # what no client sends, and what the framing refuses: see tests/edge
        for name in ("Authorization", "User-Agent", "If-None-Match", "X-Forwarded-For"):
            credential = [] if name == "Authorization" else [(b"Authorization", str(gate.authorization).encode())]
            headers = [(name.encode(), value), *credential]
            answer = gate.service.http.get("/api/v1/contexts", headers=headers)
            assert answer.status_code in {200, 400, 401, 429}, (name, text, answer.text[:200])
