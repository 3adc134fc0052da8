"""Comparing documents by their words and their layout: reading an example, learning a kind, judging a document by it.

A document is a vector: for each word, one and the logarithm of how often it comes, at unit length, and beside it one
step of each trait. A kind is the sum of its examples, of what at least two of them have. The score is the cosine.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sluice_inspect.document_kinds import (
    EXAMPLES_LEAST,
    MODEL_TERMS_MOST,
    SCORE_MOST,
    SHARED_MOST,
    TERMS_MOST,
    TRAIT_STEPS,
    Features,
    KindState,
    is_word,
    key_of,
)
from sluice_inspect.document_text.extent import Extent
from sluice_inspect.document_text.languages import FREQUENT_WORDS
from sluice_inspect.document_text.normal_form import folded, normalised
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.report import InspectionError, Limits, obstacle_of
from sluice_inspect.source import Source

_LIMITS: Final = Limits()
_EXTENT: Final = Extent(
    characters=300_000, markup_bytes=4 * 1024**2, pages=30, sheets=20, rows=5_000, cells=100, has_margins=True
)
# Letters with the marks of Hebrew, Arabic and Devanagari, which belong to them.
_RUN: Final = re.compile(
    "(?:[^\\W\\d_]|[\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0955-\u0957\u0962\u0963])+"
)
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff]+")
_ADDRESSES: Final = ("@", "://", "www.")
_SHORT_SCRIPTS: Final = "\u0590"  # from here on, words of two letters are kept too
_LETTERS_LEAST: Final = 3
_AMOUNT: Final = re.compile(r"(?<![0-9])[0-9]{1,9}[.,][0-9]{2}(?![0-9])")
_SHORT_LINE, _LONG_LINE = 30, 70
_TRAIT_WEIGHT: Final = 0.1
_COPY: Final = 0.95  # from this cosine of their words on, documents are the same one
_BASE_QUANTILE: Final = 0.25
_BASE_LEAST: Final = 0.05
_BASE_OF_FEW: Final = 0.25  # the least if half of the examples have fewer words in common than
_COMMON_LEAST: Final = 10
_Vector = dict[int | str, float]


def read_kind_terms(fd: int, filename: str) -> dict[str, Any]:
    """Return the words and the traits of the document behind `fd`, or `why` it has no text."""
    text = _text_of(fd, filename)
    if isinstance(text, dict):
        return text
    return {"words": list(map(list, words_of(text).items())), "traits": list(traits_of(text))}


def compare_kind(fd: int, filename: str, question: bytes) -> dict[str, Any]:
    """Return how alike the document behind `fd` is to the kind in `question`, or `why` it has no text.

    `shared` and `lacking` are numbers of words of the kind, the most important first; `words` counts those of the
    document.
    """
    text = _text_of(fd, filename)
    if isinstance(text, dict):
        return text
    asked = json.loads(question)
    words = words_of(text)
    terms = {key_of(word, asked["salt"]): count for word, count in words.items()}
    document = vector_of(Features(terms, traits_of(text)))
    kind: _Vector = dict(asked["terms"])
    gains = [document.get(key, 0.0) * weight for key, weight in kind.items()]
    shared = sorted((number for number, gain in enumerate(gains) if gain), key=lambda number: -gains[number])
    return {
        "score": score(kind | asked["traits"], document),
        "words": len(words),
        "shared": shared[:SHARED_MOST],
        "lacking": [number for number, gain in enumerate(gains) if not gain][:SHARED_MOST],
    }


def learn_kind(fd: int) -> dict[str, Any]:
    """Return the kind of the examples in the JSON behind `fd`: its state, base, terms and traits."""
    with Source(fd) as source:
        examples = [Features.from_json(each) for each in json.loads(source.read_at(0, source.size))]
    return learn(examples)


def learn(examples: Sequence[Features]) -> dict[str, Any]:
    """Return what examples have in common; see `learn_kind`."""
    vectors = [vector_of(example) for example in examples]
    kind = _sum(vectors)
    base = 0.0
    state: KindState = "few"
    if len(examples) >= EXAMPLES_LEAST:
        rest = [_sum([*vectors[:number], *vectors[number + 1 :]]) for number in range(len(vectors))]
        scores = sorted(score(each, vector) / SCORE_MOST for each, vector in zip(rest, vectors, strict=True))
        base = _quantile(scores, _BASE_QUANTILE)
        counts = Counter(key for example in examples for key in example.terms)
        common = sum(count >= max(2, (len(examples) + 1) // 2) for count in counts.values())
        if _different(examples) < EXAMPLES_LEAST:
            state = "alike"
        elif base < (_BASE_LEAST if common >= _COMMON_LEAST else _BASE_OF_FEW):
            state = "different"
        else:
            state = "ready"
    return {
        "state": state,
        "base": round(base, 4),
        "terms": [[key, round(weight, 5)] for key, weight in kind.items() if isinstance(key, int)],
        "traits": {key: round(weight, 5) for key, weight in kind.items() if isinstance(key, str)},
    }


def words_of(text: str) -> dict[str, int]:
    """Return how often a text has each word, the most frequent first.

    Words of every text ("the", "und"), numbers, and the parts of web and mail addresses are left out. Of scripts
    without spaces between words, pairs of signs are taken.
    """
    plain = folded(normalised(text[: _EXTENT.characters]))
    counts: Counter[str] = Counter()
    for part in plain.split(" "):
        if any(each in part for each in _ADDRESSES):
            continue
        for run in _RUN.findall(part):
            signs = _UNSPACED.findall(run)
            counts.update(pair for each in signs for pair in map("".join, itertools.pairwise(each)))
            word = run if not signs else _UNSPACED.sub("", run)
            least = _LETTERS_LEAST - (word >= _SHORT_SCRIPTS)
            if len(word) >= least and is_word(word) and word not in FREQUENT_WORDS:
                counts[word] += 1
    return dict(counts.most_common(TERMS_MOST))


def traits_of(text: str) -> tuple[str, ...]:
    """Return the step of each trait that a text has."""
    text = text[: _EXTENT.characters]
    lines = [line for each in text.splitlines() if (line := each.strip())] or [""]
    words = text.split() or [""]
    letters = max(1, sum(map(len, words)))
    measured = {
        "words": len(words),
        "short_lines": sum(len(line) < _SHORT_LINE for line in lines) / len(lines),
        "long_lines": sum(len(line) > _LONG_LINE for line in lines) / len(lines),
        "digits": sum(map(str.isdigit, text)) / letters,
        "amounts": len(_AMOUNT.findall(text)) / len(words),
        "colons": sum(":" in line for line in lines) / len(lines),
        "capitals": sum(len(word) >= _LETTERS_LEAST and word.isupper() for word in words) / len(words),
        "frequent_words": sum(word.lower() in FREQUENT_WORDS for word in words) / len(words),
    }
    return tuple(f"{name}.{sum(measured[name] >= step for step in steps)}" for name, steps in TRAIT_STEPS.items())


def vector_of(features: Features) -> _Vector:
    """Return the vector of a document."""
    weights = {key: 1 + math.log(count) for key, count in features.terms.items()}
    length = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    vector: _Vector = {key: weight / length for key, weight in weights.items()}
    return _at_unit_length(vector | dict.fromkeys(features.traits, _TRAIT_WEIGHT))


def score(kind: Mapping[int | str, float], document: _Vector) -> int:
    """Return the cosine of two vectors of unit length, from 0 to `SCORE_MOST`."""
    cosine = sum(weight * document[key] for key, weight in kind.items() if key in document)
    return min(SCORE_MOST, round(SCORE_MOST * cosine))


def _sum(vectors: Sequence[_Vector]) -> _Vector:
    """Return the direction of a sum of vectors, of what at least two of them have, the heaviest first."""
    counts = Counter(key for vector in vectors for key in vector)
    sums: Counter[int | str] = Counter()
    for vector in vectors:
        for key, weight in vector.items():
            if counts[key] > 1:
                sums[key] += weight  # type: ignore[assignment]  # a Counter adds any numbers
    words = [each for each in sums.most_common() if isinstance(each[0], int)][:MODEL_TERMS_MOST]
    traits = [each for each in sums.items() if isinstance(each[0], str)]
    return _at_unit_length({key: float(weight) for key, weight in (*words, *traits)})


def _at_unit_length(vector: _Vector) -> _Vector:
    length = math.sqrt(sum(weight * weight for weight in vector.values())) or 1.0
    return {key: weight / length for key, weight in vector.items()}


def _different(examples: Sequence[Features]) -> int:
    """Return how many examples are no copy of an earlier one."""
    kept: list[_Vector] = []
    for example in examples:
        vector = vector_of(Features(example.terms, ()))
        if all(score(other, vector) < _COPY * SCORE_MOST for other in kept):
            kept.append(vector)
    return len(kept)


def _quantile(ordered: Sequence[float], share: float) -> float:
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def _text_of(fd: int, filename: str) -> str | dict[str, Any]:
    with Source(fd) as source:
        try:
            return read_text(source, filename, _EXTENT, _LIMITS)
        except (MemoryError, RecursionError):
            return {"why": "too_complex"}
        except InspectionError as error:
            return {"why": obstacle_of(error)}
        except Exception:  # noqa: BLE001  (readers raise anything for a damaged file)
            return {"why": "damaged"}


def preload() -> None:
    """Compare a text with itself: a locked child cannot load what it needs. The formats are those of `matching`."""
    features = Features({key_of(word, "a"): 1 for word in words_of("abc")}, traits_of("abc"))
    score(vector_of(features), vector_of(features))
