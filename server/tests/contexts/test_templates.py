"""Path templates: their syntax, and keys that are valid and unique."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contexts.templates import DEFAULT_TEMPLATE, BadTemplate, render, validate
from sluice.storage import SERVICE_FOLDERS
from sluice.storage.common import validate_key
from tests.rows import each_row

AT = datetime(2026, 3, 4, tzinfo=UTC)


def key(template: str, *, tenant_id: str = "ten_1", file_id: str = "file_1", extension: str = "pdf") -> str:
    ids = {"tenant_id": tenant_id, "context_key": "claims", "file_id": file_id}
    return render(template, **ids, extension=extension, sha256="ab" * 32, at=AT)


@each_row(
    ("template", "expected"),
    [
        (DEFAULT_TEMPLATE, "ten_1/claims/2026/03/file_1.pdf"),
        ("{yyyy}-{mm}-{dd}/{file_id}", "2026-03-04/file_1"),
        ("in", "in/file_1.pdf"),
        ("{sha256}{extension}", f"{'ab' * 32}.pdf/file_1.pdf"),
        ("a/{extension}/{file_id}", "a/.pdf/file_1"),
        ("a/{extension}", "a/.pdf/file_1.pdf"),
    ],
)
def test_a_template_renders_to_a_key(template: str, expected: str) -> None:
    validate(template)
    assert key(template) == expected


@each_row(
    "template",
    [
        *("", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a/ /b", "{file_id}/.."),
        *("{unknown}", "{}", "{file_id", "file_id}", "{file_id!r}", "{file_id.__class__}", "{file_id:>99}"),
        *("{{file_id}}", "a\\b", "a\0b", "a\nb", "é", "{extension}", "{extension}/", "a%2fb"),
        "{extension}/_incoming/{file_id}",
        "{context_key}/" * 8 + "{file_id}",
        *("_incoming", "_incoming/upl_1-{file_id}", "_exports/{file_id}", ".sluice-probe/{file_id}"),
        *("_{context_key}/{file_id}", "{extension}-probe/{file_id}", "{extension}_incoming/{file_id}"),
        *("_in{context_key}ng/{file_id}", "_exports{extension}/{file_id}"),
    ],
)
@pytest.mark.asvs("1.3.7")
def test_an_invalid_template_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        validate(template)


@each_row(
    "template", ["_incoming{file_id}", "in/_incoming/{file_id}", "_archive/{file_id}", "_{yyyy}/{file_id}", "_Incoming"]
)
def test_a_template_may_resemble_a_folder_of_the_service(template: str) -> None:
    validate(template)
    assert not key(template).startswith("files/")


@each_row("folder", SERVICE_FOLDERS)
def test_a_template_that_was_kept_earlier_makes_no_key_in_a_folder_of_the_service(folder: str) -> None:
    with pytest.raises(BadTemplate, match=f"could lead into {folder}"):
        validate(f"{folder}/job_1-{{file_id}}")
    assert key(f"{folder}/job_1-{{file_id}}") == f"files/{folder}/job_1-file_1"
    assert key(folder) == f"files/{folder}/file_1.pdf"
    assert key(DEFAULT_TEMPLATE, tenant_id=folder) == f"files/{folder}/claims/2026/03/file_1.pdf"


def test_an_unknown_placeholder_is_refused_with_the_known_ones() -> None:
    validate("x" * 500)  # the maximum length
    with pytest.raises(BadTemplate, match=r"unknown placeholder \{year\}; known are \{tenant_id\}.*\{sha256\}"):
        validate("{year}/{file_id}")


@each_row("extension", ["", "p df", "../x", "é", "x" * 17])
@pytest.mark.asvs("5.3.2")
def test_an_unusual_extension_is_left_out_of_the_key(extension: str) -> None:
    assert key("{file_id}{extension}", extension=extension) == "file_1"
    assert key("a/{extension}/{file_id}", extension=extension) == "a/file_1"


@given(st.text(alphabet="ab./{} file_idextenson-", max_size=40), st.text(max_size=20))
@pytest.mark.asvs("5.3.2")
def test_every_key_of_a_valid_template_is_valid_and_unique(template: str, extension: str) -> None:
    try:
        validate(template)
    except BadTemplate:
        return
    one, other = (key(template, file_id=file_id, extension=extension) for file_id in ("file_1", "file_2"))
    assert one != other
    validate_key(one)
