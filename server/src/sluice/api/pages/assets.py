"""The files below `/static/`: the element, the style of the upload page, and their words in each language."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from sluice.messages import catalogue_of, direction_of, render

ELEMENT: Final = "sluice-upload.js"
STYLE: Final = "upload-page.css"
SCRIPT: Final = "upload-page.js"
_MEDIA_TYPES: Final[Mapping[str, str]] = {ELEMENT: "text/javascript", SCRIPT: "text/javascript", STYLE: "text/css"}
# What the element shows by itself. The page has its other words in its HTML.
_WORDS_OF_ELEMENT: Final = (
    "choose",
    "choose_one",
    "drop",
    "sending",
    "waiting",
    "uploading",
    "progress",
    "time_left",
    "checking",
    "resuming",
    "canceled",
    "lost",
    "cancel",
    "retry",
    "remove",
    "removed",
    "replace",
    "report",
    "copy",
    "copied",
    "too_many",
    "spent",
    "unavailable",
)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file with the hash of its content, which is its version."""

    content: bytes
    media_type: str
    version: str


@cache
def asset(name: str) -> Asset | None:
    """Return one of the files, None if there is none of this name."""
    if name not in _MEDIA_TYPES:
        return None
    content = files(__package__).joinpath("static", name).read_bytes()
    return Asset(content, _MEDIA_TYPES[name], version_of(content))


@cache
def words(locale: str) -> Asset:
    """Return the element's words in one of the languages, as JSON."""
    page = catalogue_of(locale).page
    stored = render("accepted.plain", {}, locale)
    shown = {"locale": locale, "direction": direction_of(locale), "stored": stored}
    content = json.dumps(shown | {key: page[key] for key in _WORDS_OF_ELEMENT}, ensure_ascii=False).encode()
    return Asset(content, "application/json", version_of(content))


def version_of(content: bytes) -> str:
    """Return what names a content."""
    return hashlib.sha256(content).hexdigest()[:16]
