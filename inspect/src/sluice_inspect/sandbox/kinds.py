"""Have the sandbox read examples of a kind of documents, learn the kind, and compare files with it; validate what it
answers.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, get_args

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.document_kinds import (
    MODEL_TERMS_MOST,
    SCORE_MOST,
    SHARED_MOST,
    TERMS_MOST,
    TRAIT_STEPS,
    TRAITS,
    DocumentKind,
    Features,
    KindState,
    Term,
    is_word,
)
from sluice_inspect.sandbox import Completed, NoWorker, OverLimit, RunResult, Sandbox
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.text import NO_TEXT_REASONS, NoText, TextUnavailable

_STATES: Final[Mapping[str, KindState]] = {word: word for word in get_args(KindState)}
_COUNT_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ExampleText:
    """What a document has: how often each word comes, and one step of each trait."""

    words: Mapping[str, int]
    traits: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike a file is to a kind.

    `score` is at most `SCORE_MOST`, `words` counts the different words of the file. `shared` and `lacking` are numbers
    of terms of the kind, the most important first.
    """

    score: int
    words: int
    shared: tuple[int, ...]
    lacking: tuple[int, ...]


async def read_example(sandbox: Sandbox, sealed: Sealed, *, filename: str, tenant_id: str) -> ExampleText | NoText:
    """Return the words and traits of a file, as a locked worker reads them. Raise `TextUnavailable`."""
    payload = _payload_of(await sandbox.run("read_kind_terms", sealed, filename=filename, tenant_id=tenant_id))
    return payload if isinstance(payload, NoText) else parse_example(payload) or NoText("damaged")


async def compare(
    sandbox: Sandbox, sealed: Sealed, kind: DocumentKind, salt: str, *, filename: str, tenant_id: str
) -> Likeness | NoText:
    """Return how alike a file is to a kind, as a locked worker finds. Raise `TextUnavailable`."""
    question = {
        "salt": salt,
        "terms": [[term.key, term.weight] for term in kind.terms],
        "traits": dict(kind.traits),
    }
    with closing(_lent(question)) as buffer:
        result = await sandbox.run("compare_kind", sealed, filename=filename, tenant_id=tenant_id, buffer=buffer)
    payload = _payload_of(result)
    return payload if isinstance(payload, NoText) else parse_likeness(payload, kind) or NoText("damaged")


async def learn(sandbox: Sandbox, examples: Sequence[Features], *, tenant_id: str) -> DocumentKind:
    """Return what examples have in common, as a locked worker learns it; words are not known yet.

    Raise `TextUnavailable`, also if the answer is none of an honest worker: no file has a part in it.
    """
    written = json.dumps([example.to_json() for example in examples]).encode()
    with closing(_lent(written)) as buffer:
        sealed = Sealed(buffer.fd, len(written), hashlib.sha256(written).digest())
        payload = _payload_of(await sandbox.run("learn_kind", sealed, filename="", tenant_id=tenant_id))
    kind = None if isinstance(payload, NoText) else parse_kind(payload, examples)
    if kind is None:
        raise TextUnavailable("the kind of the examples was not learnt")
    return kind


def parse_example(payload: Mapping[str, object]) -> ExampleText | NoText | None:
    """Return what the worker read, None if no honest worker reads such."""
    match payload:
        case {"why": str(why), **others} if not others and why in NO_TEXT_REASONS:
            return NoText(NO_TEXT_REASONS[why])
        case {"words": list(words), "traits": list(traits), **others} if not others and len(words) <= TERMS_MOST:
            counts: dict[str, int] = {}
            for pair in words:
                match pair:
                    case [str(word), int(count)] if type(count) is int and 0 < count <= _COUNT_MOST and is_word(word):
                        counts[word] = count
                    case _:
                        return None
            names = tuple(each for each in traits if isinstance(each, str) and each in TRAITS)
            if [name.partition(".")[0] for name in names] == list(TRAIT_STEPS):
                return ExampleText(counts, names)
    return None


def parse_likeness(payload: Mapping[str, object], kind: DocumentKind) -> Likeness | NoText | None:
    """Return what the worker found, None if no honest worker does."""
    match payload:
        case {"why": str(why), **others} if not others and why in NO_TEXT_REASONS:
            return NoText(NO_TEXT_REASONS[why])
        case {"score": int(found), "words": int(words), "shared": list(shared), "lacking": list(lacking), **others} if (
            not others
            and type(found) is int
            and type(words) is int
            and 0 <= found <= SCORE_MOST
            and 0 <= words <= TERMS_MOST
            and max(len(shared), len(lacking)) <= SHARED_MOST
            and all(type(number) is int and 0 <= number < len(kind.terms) for number in (*shared, *lacking))
        ):
            return Likeness(found, words, tuple(dict.fromkeys(shared)), tuple(dict.fromkeys(lacking)))
    return None


def parse_kind(payload: Mapping[str, object], examples: Sequence[Features]) -> DocumentKind | None:
    """Return what the worker learnt, None if no honest worker does from these examples."""
    counts = Counter(key for example in examples for key in example.terms)
    match payload:
        case {"state": str(state), "base": float(base), "terms": list(terms), "traits": dict(traits), **others} if (
            not others and state in _STATES and 0.0 <= base <= 1.0 and len(terms) <= MODEL_TERMS_MOST
        ):
            found: dict[int, Term] = {}
            for pair in terms:
                match pair:
                    case [int(key), float(weight)] if counts[key] > 1 and 0.0 <= weight <= 1.0:
                        found[key] = Term(key, weight, counts[key])
                    case _:
                        return None
            weights = {name: weight for name, weight in traits.items() if name in TRAITS and _is_weight(weight)}
            if len(weights) == len(traits):
                return DocumentKind(_STATES[state], len(examples), base, tuple(found.values()), weights)
    return None


def _is_weight(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value) and 0.0 <= value <= 1.0


def _payload_of(result: RunResult) -> Mapping[str, object] | NoText:
    if isinstance(result, NoWorker):
        raise TextUnavailable(result.why)
    if isinstance(result, OverLimit):
        return NoText("too_complex")
    return result.payload if isinstance(result, Completed) else NoText("damaged")


def _lent(content: Mapping[str, object] | bytes) -> SharedBuffer:
    try:
        return SharedBuffer.holding(content if isinstance(content, bytes) else json.dumps(content).encode())
    except OSError as error:
        raise TextUnavailable(f"there is no memory for what is compared: {error}") from error
