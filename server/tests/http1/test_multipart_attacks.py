"""Collected form bodies (python-multipart's and werkzeug's): parsed as their authors expect, or refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.errors import Malformed
from tests.attacks import files, needs_attacks
from tests.http1.sockets import exchange, statuses
from tests.http1.test_multipart import parts_of
from tests.rows import each_row
from tests.service import ApiClient


def _named(ending: str) -> dict[str, Path]:
    found = files("multipart", "python-multipart", ending)
    return {source.rpartition("/")[2].removesuffix(ending): path for source, path in found.items()}


FORMS, EXPECTED = _named(".http"), _named(".yaml")
SENT = {
    (source.split("/")[-2], source.split("/")[-1]): path
    for source, path in files("multipart", "werkzeug").items()
    if "ie7" not in source
}
BROWSERS = {browser: path for (browser, name), path in SENT.items() if name == "request.http"}

REFUSED_HERE = {
    "base64_encoding": "encodings of parts are not used in forms (RFC 7578 section 4.7)",
    "mixed_plain_and_base64_encoding": "the same",
    "quoted_printable_encoding": "the same",
    "mixed_case_headers": "the same",
    "single_field_with_leading_newlines": "a preamble is read by some and refused by others",
    "single_field_blocks": "the body begins with another boundary than was announced",
    "almost_match_boundary_without_CR": "RFC 2046 section 5.1.1: readers may take any line that begins with the boundary for one",
    "almost_match_boundary_without_LF": "the same",
    "almost_match_boundary_without_final_hyphen": "the same",
    "header_with_number": "a field name of marks, which no client sends",
}
"""Bodies that their author accepts and that are refused here, because another parser reads them differently."""

pytestmark = needs_attacks


def expectation(name: str) -> tuple[str, Any]:
    content = yaml.safe_load(EXPECTED[name].read_text())
    return content["boundary"], content["expected"]


def _is_refused(name: str) -> bool:
    return isinstance(expectation(name)[1], dict) or name in REFUSED_HERE


@each_row("size", [1, 13, 65_536])
@each_row("name", sorted(FORMS))
async def test_form_is_parsed_as_expected_or_refused_for_any_chunk_size(name: str, size: int) -> None:
    boundary, expected = expectation(name)
    body = FORMS[name].read_bytes()
    if _is_refused(name):
        with pytest.raises(Malformed):
            await parts_of(body, size, boundary)
        return
    parts = [(part["name"], part.get("file_name"), part["data"]) for part in expected]
    assert await parts_of(body, size, boundary) == parts


@each_row("name", sorted(FORMS))
def test_service_refuses_the_forms_that_the_parser_refuses(shared_client: ApiClient, name: str) -> None:
    answered = _sent(shared_client, FORMS[name], expectation(name)[0])
    # the others are well-formed, but not an upload: the fields have other names
    assert answered == ([400] if _is_refused(name) else [422])


@each_row("browser", sorted(BROWSERS))
async def test_form_of_a_browser_is_parsed_byte_for_byte(browser: str) -> None:
    body = BROWSERS[browser].read_bytes()
    boundary = body.partition(b"\r\n")[0].decode()[2:]
    parts = await parts_of(body, 1000, boundary)
    sent = {name: path.read_bytes() for (folder, name), path in SENT.items() if folder == browser}
    del sent["request.http"]
    # browsers send lines so; the copy beside it has the line ends of an editor
    typed = sent.pop("text.txt").strip().replace(b"\n", b"\r\n")
    assert sorted(content for _, filename, content in parts if filename) == sorted(sent.values())
    assert [content for _, filename, content in parts if filename is None] == [typed]


async def test_form_with_lost_line_endings_is_refused() -> None:
    body = next(path for source, path in files("multipart", "werkzeug").items() if "ie7" in source).read_bytes()
    with pytest.raises(Malformed):
        await parts_of(body, 1000, "---------------------------7da36d1b4a0164")


def _sent(client: ApiClient, path: Path, boundary: str) -> list[int]:
    body = path.read_bytes()
    head = (
        "POST /api/v1/files/upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: {client.authorization}\r\nContent-Length: {len(body)}\r\n"
        f'Content-Type: multipart/form-data; boundary="{boundary}"\r\n\r\n'
    )
    return statuses(exchange(client.service, head.encode() + body, half_close=False))
