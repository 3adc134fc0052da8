"""The examples of the API reference are true: each line, run in a shell against a running service, answers what stands below it."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.api.places import Places
from tests.api.samples import picture
from tests.docs.pages import DOCS, blocks, curl_blocks, run_line
from tests.gate import Gate, running_service
from tests.servers import require

IDS = ("tenant_id", "context_id", "file_id", "config_id", "api_key_id")


@dataclass(frozen=True)
class Example:
    """One operation as the page shows it."""

    title: str
    line: str
    status: int
    reply: dict[str, Any]


def _examples() -> list[Example]:
    """Answer the examples in the order of the page, deletions last: they take away what the others need."""
    parts = re.split(r"^### ", (DOCS / "reference" / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = [
        Example(
            part.splitlines()[0],
            curl_blocks(part)[0],
            int(re.findall(r"^Answers (\d{3}) ", part, re.MULTILINE)[0]),
            json.loads(blocks(part, "json")[0]),
        )
        for part in parts
        if curl_blocks(part)
    ]
    return sorted(found, key=lambda example: "-X DELETE" in example.line)


@dataclass
class Reader:
    """Somebody who pastes the examples one after the other, with ids of his own in place of those shown."""

    gate: Gate
    folder: Path
    own: dict[str, str] = field(default_factory=dict)

    def paste(self, example: Example) -> dict[str, Any]:
        assert self.gate.authorization
        line = example.line
        for shown, real in self.own.items():
            line = line.replace(shown, real)
        key = self.gate.authorization.removeprefix("Bearer ")
        output = run_line(
            f"{line} -sS -w '\\n%{{http_code}}'",
            url=self.gate.service.url,
            environment={"SLUICE_API_KEY": key},
            folder=self.folder,
        )
        body, _, status = output.rpartition("\n")
        assert int(status) == example.status, body
        reply: dict[str, Any] = json.loads(body)
        self._learn(example.reply["data"], reply["data"])
        return reply

    def _learn(self, shown: Any, real: Any) -> None:
        if isinstance(shown, dict):
            self.own |= {shown[name]: real[name] for name in IDS if name in shown}


@pytest.fixture(scope="module")
def reader(places: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    require("curl", "curl", apt="curl")
    folder = tmp_path_factory.mktemp("reader")
    (folder / "dent.png").write_bytes(picture())
    with running_service(places.fresh("sqlite-local"), BUCKET_PROBE="false") as service:
        yield Reader(service.new_gate(), folder)


def _shape(value: Any) -> Any:
    """Answer the names of all fields, without the values; metadata is free."""
    if isinstance(value, dict):
        return {name: None if name == "metadata" else _shape(inner) for name, inner in value.items()}
    return [_shape(value[0])] if isinstance(value, list) and value else None


@pytest.mark.xdist_group("reference")
def test_every_example_answers_what_is_shown(reader: Reader) -> None:
    examples = _examples()
    assert len(examples) == 21
    for example in examples:
        if example.title == "Delete bucket":
            # The one that was shown is the default by now, and that is never deleted.
            reader.gate.post(reader.gate.buckets, _another_bucket())
        reply = reader.paste(example)
        assert reply["message"] == example.reply["message"], example.title
        assert _shape(reply) == _shape(example.reply), example.title
        assert _unlike(example.reply["data"], reply["data"]) <= _EACH_HAS_ITS_OWN, example.title


_EACH_HAS_ITS_OWN = {*IDS, "api_key", "key_prefix", "download_url", "size_bytes", "checksum", "uploaded_by", "uploaded_by_name"} | {
    "created_at",
    "updated_at",
    "last_used_at",
    "last_downloaded_at",
    "download_count",
    "storage_used_bytes",
}


def _unlike(shown: Any, real: Any) -> set[str]:
    """Answer the names of the fields whose values differ."""
    if isinstance(shown, dict):
        return {name for name in shown if shown[name] != real[name]}
    return set()


def _another_bucket() -> dict[str, Any]:
    return {
        "name": "another",
        "access_key_id": "AKIAIOSFODNN7EXAMPLE",
        "secret_access_key": "secret",
        "default_bucket": "another",
        "set_as_default": True,
    }
