"""JSON by RFC 8259: strict UTF-8 (a byte order mark is forgiven), one value, no NaN, bounded depth. Duplicate names are allowed.

Up to `_WHOLE` bytes are parsed in one piece; more is walked in a window, so that memory stays bounded whatever the size.
"""

import json
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.json_stream import decoder, is_empty, keep_shallow, walk
from sluice.formats.text.plaintext import read_text
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex

_WHOLE: Final = 8 * 1024**2
_holds_nothing: Final[WeakKeyDictionary[Source, bool]] = WeakKeyDictionary()
"""Remembered from the one reading, since `check` and `blank` are asked apart."""


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    if source.size > _WHOLE:
        walked = walk(read_text(source, "utf-8-sig"), limits)
        _holds_nothing[source] = not walked.has_content
        return {} if walked.finished else {"partially_checked": True}
    text = "".join(read_text(source, "utf-8-sig"))
    try:
        value, end = decoder().raw_decode(text, len(text) - len(text.lstrip(" \t\n\r")))
    except json.JSONDecodeError as error:
        raise Corrupt(f"the JSON breaks in line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise TooComplex(f"the JSON nests deeper than {limits.max_json_depth} levels") from error
    if text[end:].strip(" \t\n\r"):
        raise Corrupt(f"the JSON value ends at character {end}, but more follows it")
    keep_shallow(value, limits)
    _holds_nothing[source] = is_empty(value)
    return {}


def _blank(source: Source, _limits: Limits) -> str | None:
    return "the JSON holds nothing but nulls and empty values" if _holds_nothing.get(source) else None


KIND: Final = Kind(
    name="json",
    content_type="application/json",
    extensions=frozenset({"json", "geojson", "jsonld", "ipynb"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b'{"name": "sample", "values": [1, 2.5, true]}\n',
    is_text=True,
)
