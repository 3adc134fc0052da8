"""Answering a question about the text of a document. Nothing of the text is in the answer."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any, Final, Protocol

import re2

from sluice_inspect import registry
from sluice_inspect.document_text.dates import newest_labelled
from sluice_inspect.document_text.extent import Extent, ReadsPictures
from sluice_inspect.document_text.identifiers import count_identifiers
from sluice_inspect.document_text.languages import languages_of
from sluice_inspect.document_text.normal_form import compact, folded, normalised
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.report import InspectionError, Limits, obstacle_of
from sluice_inspect.source import MemoryBacked, Source
from sluice_inspect.text_questions import CHARACTERS_MOST, PAGES_MOST, Question, Words

_LIMITS: Final = Limits()
_EXTENT: Final = Extent(
    characters=CHARACTERS_MOST,
    markup_bytes=8 * 1024**2,
    pages=PAGES_MOST,
    sheets=PAGES_MOST,
    rows=20_000,
    cells=200,
    has_margins=True,
)
_PATTERN_MEMORY_BYTES: Final = 8 * 1024**2
# Letters of scripts that put no space between words; the mark of long vowels is of no script.
_UNSPACED: Final = r"\p{Han}\p{Hiragana}\p{Katakana}\x{30fc}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_EDGE: Final = rf"(?:[^\pL\pN\pM]|[{_UNSPACED}])"


class Ocr(ReadsPictures, Protocol):
    """Reads pictures and scanned pages. `pages` counts those that were read; `is_cut`: some were left out."""

    pages: int
    is_cut: bool


def match_text(fd: int, filename: str, question: bytes, ocr: Ocr | None = None) -> dict[str, Any]:
    """Return what the text of the file behind `fd` answers to a question in JSON, or `why` there is no text.

    `found` are the numbers of the words that it contains, `words` counts all of them, `languages` are codes, the most
    frequent first, `date` is the newest behind a label, `identifiers` counts each kind, `cut` says whether there is
    more text than is read, and `ocr_pages` counts the pictures and pages that were read by OCR.
    """
    with Source(fd) as source:
        try:
            text = read_text(source, filename, replace(_EXTENT, pictures=ocr), _LIMITS)
        except (MemoryError, RecursionError):
            return {"why": "too_complex"}
        except InspectionError as error:
            return {"why": obstacle_of(error)}
        except Exception:  # noqa: BLE001  (readers raise anything for a damaged file)
            return {"why": "damaged"}
    answered = answer(text, Question.from_json(json.loads(question)))
    if ocr is not None:
        answered |= {"cut": answered["cut"] or ocr.is_cut, "ocr_pages": ocr.pages}
    return answered


def answer(text: str, question: Question) -> dict[str, Any]:
    """Return what a text answers to a question; see `match_text`."""
    plain = normalised(text[:CHARACTERS_MOST])[:CHARACTERS_MOST]
    lower = folded(plain)[:CHARACTERS_MOST]
    searched = compact(plain), compact(lower)
    newest = newest_labelled(lower, [folded(normalised(each)) for each in question.labels], question.today)
    return {
        "found": [number for number, words in enumerate(question.words) if contains(*searched, words)],
        "words": sum(any(map(str.isalnum, word)) for word in plain.split(" ")),
        "languages": list(languages_of(lower)),
        "date": None if newest is None else newest.isoformat(),
        "identifiers": count_identifiers(plain, question.identifiers),
        "cut": len(text) >= CHARACTERS_MOST,
        "ocr_pages": 0,
    }


def contains(plain: str, lower: str, words: Words) -> bool:
    """Return whether a compact text, which is also given without case, contains one of the phrases or the pattern.

    A phrase is found as whole words, a pattern anywhere. The time is linear in the length of the text.
    """
    phrases = [phrase for each in words.phrases if (phrase := compact(folded(normalised(each))))]
    if phrases and _compiled("|".join(map(_whole, phrases))).search(lower) is not None:
        return True
    return words.pattern is not None and _compiled(words.pattern).search(plain) is not None


def _whole(phrase: str) -> str:
    """Return the pattern of a phrase that is no part of a longer word."""
    first, last = _edge_of(phrase[0]), _edge_of(phrase[-1])
    begin = f"(?:^|{_EDGE})" if first else ""
    end = f"(?:$|{_EDGE})" if last else ""
    return f"{begin}{re2.escape(phrase)}{end}"


def _edge_of(letter: str) -> bool:
    """Return whether a word that begins or ends with this letter ends where another kind of character stands."""
    return letter.isalnum() and _compiled(f"[{_UNSPACED}]").search(letter) is None


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = _PATTERN_MEMORY_BYTES
    options.case_sensitive = False
    options.log_errors = False
    return re2.compile(pattern, options)


def preload() -> None:
    """Read the sample of every format: a locked child cannot load what it needs."""
    for each in registry.FORMATS:
        if each.missing_reader:
            continue
        # A text that cannot be read here is no reason to check no file.
        with MemoryBacked(each.sample()) as sample, contextlib.suppress(InspectionError):
            read_text(sample, f"sample.{min(each.extensions)}", _EXTENT, _LIMITS)
    contains("a", "a", Words(("a",), "a"))
