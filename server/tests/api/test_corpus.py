"""Real files of many programs from ../shared/corpus, uploaded over HTTP. Skipped when they are absent."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.responses import assert_rejected, data
from tests.rows import each_row
from tests.run_length import LONG_RUN
from tests.service import ApiClient

SHARED = Path(__file__).parents[3].parent / "shared"
CORPUS = SHARED / "corpus"
FORMATS = ["pdf", "png", "jpg", "gif", "webp", "docx", "xlsx", "pptx", "zip", "csv", "json", "xml", "txt"]
BINARY = [name for name in FORMATS if name not in {"csv", "txt"}]

pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="../shared/corpus is absent")


def _manifest_rows() -> list[dict[str, Any]]:
    manifest = CORPUS / "manifest.jsonl"
    return [json.loads(line) for line in manifest.read_text().splitlines()] if manifest.exists() else []


def _files(kind: str, label: str, tier: str | None = None) -> list[Path]:
    wanted = (row for row in _manifest_rows() if (row["format"], row["label"]) == (kind, label))
    return [CORPUS / row["file"] for row in wanted if tier in {None, row["tier"]}]


def _unexpected(
    client: ApiClient, context: str, paths: list[Path], *right: list[str], share: int = 1
) -> dict[str, str]:
    """Upload files, or only the beginning of each; return the responses without one of the errors, by file name."""
    responses = {
        path.name: client.upload(path.name, path.read_bytes()[: path.stat().st_size // share], context=context)
        for path in paths
    }
    return {
        name: response.text for name, response in responses.items() if response.json().get("errors", []) not in right
    }


@each_row("kind", FORMATS)
def test_valid_files_pass_the_integrity_rule(client: ApiClient, kind: str) -> None:
    paths = _files(kind, "valid", "clean")
    assert len(paths) >= 10
    if not LONG_RUN:  # inspection/formats/test_corpus.py has all of them without a server
        paths = [min(paths, key=lambda path: path.stat().st_size)]
    context = client.create_context(reject_blank_files=False, max_file_size_mb=100)
    assert _unexpected(client, context, paths, []) == {}


@each_row("kind", FORMATS)
def test_files_are_rejected_as_truncated_of_another_format_or_blank_but_not_for_a_password(
    client: ApiClient, kind: str
) -> None:
    whole = [path for path in _files(kind, "valid", "clean") if 200 < path.stat().st_size < 300_000]
    whole = whole[: 4 if LONG_RUN else 1] if kind in BINARY else []
    content = _files("png" if kind != "png" else "pdf", "valid", "clean")[0].read_bytes()
    context, strict = client.create_context(reject_blank_files=False), client.create_context()
    assert _unexpected(client, context, whole, ["corrupt_file"], share=2) == {}
    assert_rejected(client.upload(f"a.{kind}", content, context=context), "type_mismatch")
    # JSON of white space alone is not valid JSON either (RFC 8259), and integrity is checked first
    right = [["blank_document"], *([["corrupt_file"]] if kind == "json" else [])]
    most = None if LONG_RUN else 2
    if kind != "webp":
        assert _unexpected(client, strict, _files(kind, "blank", "generated")[:most], *right) == {}
    for path in _files(kind, "password_protected")[:most] if kind in {"pdf", "docx", "xlsx", "zip"} else ():
        data(client.upload(path.name, path.read_bytes(), context=strict), 201)
