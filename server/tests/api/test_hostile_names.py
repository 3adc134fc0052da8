"""Hostile texts in every field that accepts one: each is kept as sent or refused, and never becomes part of a path."""

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


def _accepted_data(response: httpx.Response) -> Mapping[str, object] | None:
    """Return the data of a success, or None for an error; fail for any other status."""
    assert response.status_code in {200, 201} | _REFUSALS, (response.status_code, response.text[:300])
    return data(response, response.status_code) if response.status_code < 400 else None


def _assert_generated_keys(client: ApiClient, names: list[str]) -> None:
    """Assert that every object key holds an id, and nothing of the file name but its extension."""
    for key in client.object_keys():
        assert ".." not in PurePosixPath(key).parts
        assert not any(len(name) > 8 and name in key for name in names), key


@pytest.mark.asvs("5.3.2", "1.3.3", "2.2.1")
def test_every_hostile_file_name_is_kept_or_refused(client: ApiClient) -> None:
    context = client.create_context(reject_corrupt_files=False, reject_blank_files=False, scan_for_viruses=False)
    lists = files_of_names(HOSTILE_LINES)
    lines = [line for _, content in lists for line in content.split(b"\n")][:: 1 if LONG_RUN else 4]
    outcomes = Counter(_accepted_data(client.upload(line, TEXT, context=context)) is not None for line in lines)
    assert len(lists) == 16
    assert outcomes[True] > len(lines) // 4
    strings = naughty_strings()[::STEP]
    outcomes = Counter(
        _accepted_data(client.upload(text.encode("utf-8", "surrogatepass"), context=context, metadata={text: text}))
        is not None
        for text in strings
    )
    assert outcomes[True]
    _assert_generated_keys(client, [*(line.decode("utf-8", "replace") for line in lines), *strings])


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
