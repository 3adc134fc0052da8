"""Have the sandbox answer a question about the text of a file, which stays in the worker; validate the answer."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, get_args

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.ocr.languages import find_installed
from sluice_inspect.sandbox import Completed, NoWorker, OverLimit, Sandbox
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.text_questions import (
    CHARACTERS_MOST,
    IDENTIFIERS_MOST,
    OCR_PAGES_MOST,
    Language,
    NoTextReason,
    Question,
)

_LANGUAGES: Final[Mapping[str, Language]] = {code: code for code in get_args(Language)}
NO_TEXT_REASONS: Final[Mapping[str, NoTextReason]] = {word: word for word in get_args(NoTextReason)}


@dataclass(frozen=True, slots=True)
class TextAnswer:
    """What was found in the text of a file.

    `found` are the numbers of the words of the question that it contains. `words` counts all words of the text, which
    has none if the file shows pictures only. `languages` has the most frequent first, and is empty if they are not
    known. `newest` is the newest date behind a label. `is_cut`: there is more text than is read. `ocr_pages` counts the
    pictures and pages that were read by OCR.
    """

    found: frozenset[int]
    words: int
    languages: tuple[Language, ...]
    newest: date | None
    identifiers: Mapping[str, int]
    is_cut: bool
    ocr_pages: int = 0


@dataclass(frozen=True, slots=True)
class NoText:
    """A file whose text cannot be read; `why` is one of a few fixed words."""

    why: NoTextReason


class TextUnavailable(Exception):
    """No worker was available: an outage, and nothing about the file. `str()` says why."""


async def ask_text(
    sandbox: Sandbox,
    sealed: Sealed,
    question: Question,
    *,
    filename: str,
    tenant_id: str,
    ocr: Sequence[Language] = (),
) -> TextAnswer | NoText:
    """Return what the text of a file answers to a question, as a locked worker reads it. Raise `TextUnavailable`.

    Pictures and scanned pages are read by OCR in those of the languages `ocr` that are installed, and not without one.
    The format is the one that the bytes are; the name only helps, as it does when the file is checked. A worker that
    crashed, or answered what no honest one does, had a damaged file.
    """
    installed = find_installed() if ocr else None
    names = () if installed is None else installed.names(ocr)
    try:
        lent = SharedBuffer.holding(json.dumps(question.to_json()).encode())
    except OSError as error:
        raise TextUnavailable(f"there is no memory for the question: {error}") from error
    with closing(lent) as buffer:
        result = await sandbox.run(
            "match_text", sealed, filename=filename, tenant_id=tenant_id, buffer=buffer, ocr=names
        )
    if isinstance(result, NoWorker):
        raise TextUnavailable(result.why)
    if isinstance(result, OverLimit):
        return NoText("too_complex")
    if isinstance(result, Completed):
        return parse_answer(result.payload, question) or NoText("damaged")
    return NoText("damaged")


def parse_answer(payload: Mapping[str, object], question: Question) -> TextAnswer | NoText | None:
    """Return what the worker answered, None if no honest worker does."""
    match payload:
        case {"why": str(why), **others} if not others and why in NO_TEXT_REASONS:
            return NoText(NO_TEXT_REASONS[why])
        case {
            "found": list(found),
            "words": int(words),
            "languages": list(languages),
            "date": str() | None as newest,
            "identifiers": dict(identifiers),
            "cut": bool(cut),
            "ocr_pages": int(pages),
            **others,
        } if (
            not others
            and type(pages) is int
            and 0 <= pages <= OCR_PAGES_MOST
            and all(type(number) is int and 0 <= number < len(question.words) for number in found)
            and type(words) is int
            and 0 <= words <= CHARACTERS_MOST
            and len(languages) <= len(_LANGUAGES)
            and all(isinstance(code, str) and code in _LANGUAGES for code in languages)
        ):
            counts = _counts(identifiers, question)
            day = None if newest is None else _day(newest, question)
            if counts is None or (newest is not None and day is None):
                return None
            codes = tuple(_LANGUAGES[code] for code in dict.fromkeys(languages))
            return TextAnswer(frozenset(found), words, codes, day, counts, cut, pages)
    return None


def _counts(identifiers: Mapping[object, object], question: Question) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for name in question.identifiers:
        count = identifiers.get(name, 0)
        if type(count) is not int or not 0 <= count <= IDENTIFIERS_MOST:
            return None
        if count:
            counts[name] = count
    return counts if identifiers.keys() <= set(question.identifiers) else None


def _day(written: str, question: Question) -> date | None:
    try:
        day = date.fromisoformat(written)
    except ValueError:
        return None
    return day if question.labels and day <= question.today + timedelta(days=1) else None
