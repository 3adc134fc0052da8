"""The path template of stored objects: literal text and a closed list of placeholders. No `str.format`, no expressions.

A key that a template makes never leaves the bucket's base path and is never reused: see `render`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from sluice.storage import SERVICE_FOLDERS, outside_service_folders

DEFAULT_TEMPLATE: Final = "{tenant_id}/{context_key}/{yyyy}/{mm}/{file_id}{extension}"
PLACEHOLDERS: Final = ("tenant_id", "context_key", "file_id", "yyyy", "mm", "dd", "extension", "sha256")

_LITERAL: Final = re.compile(r"[A-Za-z0-9!_.*'()/=@+, -]*")
_TOKEN: Final = re.compile(r"\{([a-z0-9_]*)\}")
_SAFE_EXTENSION: Final = re.compile(r"[a-z0-9]{1,16}")
_LONGEST: Final = {
    "tenant_id": 64,
    "context_key": 100,
    "file_id": 31,
    "yyyy": 4,
    "mm": 2,
    "dd": 2,
    "extension": 17,
    "sha256": 64,
}
# What each placeholder means. A tenant's id from an issuer may be any word: `render` has the last say.
_SHAPES: Final = {
    "tenant_id": re.compile("ten_[0-9a-z]+"),
    "context_key": re.compile("[a-z][a-z0-9_]*"),
    "file_id": re.compile("file_[0-9a-z]+"),
    "yyyy": re.compile("[0-9]{4}"),
    "mm": re.compile("[0-9]{2}"),
    "dd": re.compile("[0-9]{2}"),
    "extension": re.compile(r"(\.[a-z0-9]{1,16})?"),
    "sha256": re.compile("[0-9a-f]{64}"),
}
MAX_KEY: Final = (
    600  # of the 1,024 bytes of an S3 key (Amazon S3 user guide, "Object key names"), 400 belong to the base path
)
_UNIQUE_TAIL: Final = "/{file_id}{extension}"


class BadTemplate(ValueError):
    """The template is not of the language. `str()` names the part and what is allowed."""


def validate(template: str) -> None:
    """Raise `BadTemplate` unless every key that `template` can make is a clean relative path."""
    literals = _TOKEN.split(template)[0::2]
    for name in _TOKEN.findall(template):
        if name not in PLACEHOLDERS:
            raise BadTemplate(f"unknown placeholder {{{name}}}; known are {_known()}")
    for literal in literals:
        if "{" in literal or "}" in literal:
            raise BadTemplate(f"a brace without its partner; placeholders are {_known()}")
        if not _LITERAL.fullmatch(literal):
            raise BadTemplate("only letters, digits and !_.*'()/=@+,- and spaces may stand between placeholders")
    _validate_segments(template)
    _validate_folder(template)
    longest = _TOKEN.sub(lambda token: "x" * _LONGEST[token[1]], _with_unique_tail(template))
    if len(longest) > MAX_KEY:
        raise BadTemplate(f"could make keys of {len(longest)} characters; at most {MAX_KEY} are allowed")


def render(
    template: str, *, tenant_id: str, context_key: str, file_id: str, extension: str, sha256: str, at: datetime
) -> str:
    """Return the object key of one file, without the bucket's base path.

    A template without `{file_id}` gets it added, so that no two files ever share a key. An extension that is not plain
    letters and digits is left out: a name that a sender chose never shapes a path. No key is in a folder of the
    service, whatever `validate` allowed when the template was set.
    """
    values: Mapping[str, str] = {
        "tenant_id": tenant_id,
        "context_key": context_key,
        "file_id": file_id,
        "yyyy": f"{at.year:04}",
        "mm": f"{at.month:02}",
        "dd": f"{at.day:02}",
        "extension": f".{extension}" if _SAFE_EXTENSION.fullmatch(extension) else "",
        "sha256": sha256,
    }
    whole = _with_unique_tail(template)
    parts = _TOKEN.split(
        whole if values["extension"] else _without_extension(whole)
    )  # literal text and placeholder names take turns
    parts[1::2] = map(values.__getitem__, parts[1::2])
    return outside_service_folders("".join(parts))


def _with_unique_tail(template: str) -> str:
    return template if "{file_id}" in template else template + _UNIQUE_TAIL


def _without_extension(template: str) -> str:
    """Return the template for a file without an extension: a segment that is nothing else is left out."""
    segments = (segment for segment in template.split("/") if segment != "{extension}")
    return "/".join(segments).replace("{extension}", "")


def _validate_segments(template: str) -> None:
    worst = _without_extension(template)
    if not worst:
        raise BadTemplate("would make an empty path")
    if worst.startswith("/") or worst.endswith("/") or "//" in worst:
        raise BadTemplate("must not begin or end with a slash or hold an empty segment")
    for segment in worst.split("/"):
        if not segment.strip(". "):
            raise BadTemplate("a segment of dots or spaces alone is no name")
        if segment != segment.strip(" "):
            raise BadTemplate("a segment must not begin or end with a space")


def _validate_folder(template: str) -> None:
    for possible in (template, _without_extension(template)):
        parts = _TOKEN.split(possible.partition("/")[0])
        for folder in SERVICE_FOLDERS:
            if _can_render(parts, folder):
                raise BadTemplate(f"could lead into {folder}, a folder of the service's own")


def _can_render(parts: Sequence[str], text: str) -> bool:
    """Return whether literal text and placeholders, in turns, can become `text`."""
    ends = {0}  # of the beginnings of `text` that the parts so far can become
    for number, part in enumerate(parts):
        if number % 2 == 0:
            ends = {start + len(part) for start in ends if text.startswith(part, start)}
        else:
            spans = [(start, end) for start in ends for end in range(start, len(text) + 1)]
            ends = {end for start, end in spans if _SHAPES[part].fullmatch(text, start, end)}
    return len(text) in ends


def _known() -> str:
    return ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
