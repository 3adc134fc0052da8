"""Kinds of documents: what is kept of an example, and the model that is learnt from several."""
# The server keeps both, and a locked child reads and writes them. Words are kept as numbers: those of one example alone
# are never needed as words (docs/decisions/0040).

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

EXAMPLES_LEAST: Final = 3
EXAMPLES_MOST: Final = 30
TERMS_MOST: Final = 2_000  # different words of a document; of more, the most frequent
MODEL_TERMS_MOST: Final = 500
WORDS_LEAST: Final = 10  # different words; with fewer there is nothing to compare
LETTERS_MOST: Final = 30  # of a word
SHARED_MOST: Final = 20  # words that are named of one comparison
SCORE_MOST: Final = 10_000
_KEY_BYTES: Final = 6

# How much of something a document has, in steps: `digits.2` is the third step of the share of digits.
TRAIT_STEPS: Final[Mapping[str, tuple[float, ...]]] = {
    "words": (60, 150, 400, 1000, 4000),
    "short_lines": (0.2, 0.4, 0.6, 0.8),
    "long_lines": (0.1, 0.3, 0.6),
    "digits": (0.02, 0.05, 0.1, 0.2),
    "amounts": (0.002, 0.01, 0.03, 0.08),
    "colons": (0.03, 0.1, 0.2, 0.35),
    "capitals": (0.02, 0.05, 0.12),
    "frequent_words": (0.1, 0.2, 0.3, 0.4),
}
TRAITS: Final = frozenset(f"{name}.{step}" for name, steps in TRAIT_STEPS.items() for step in range(len(steps) + 1))

# Whether documents can be compared with the examples: `few` are too few of them, `alike` are copies of fewer documents,
# and `different` have too little in common.
KindState = Literal["ready", "few", "alike", "different"]


def key_of(word: str, salt: str) -> int:
    """Return the number of a word in one context: a keyed hash of it."""
    digest = hashlib.blake2b(word.encode(), digest_size=_KEY_BYTES, key=salt.encode()[: hashlib.blake2b.MAX_KEY_SIZE])
    return int.from_bytes(digest.digest())


def is_word(text: str) -> bool:
    """Return whether a text is a word that is kept: letters, with the marks that belong to them."""
    return 0 < len(text) <= LETTERS_MOST and all(
        letter.isalpha() or unicodedata.category(letter) in {"Mn", "Mc"} for letter in text
    )


@dataclass(frozen=True, slots=True)
class Features:
    """What is kept of an example: how often it has each word, and one step of each trait."""

    terms: Mapping[int, int]
    traits: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the features as JSON."""
        return {"terms": [list(each) for each in self.terms.items()], "traits": list(self.traits)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the features that `to_json` wrote."""
        return cls(dict(raw["terms"]), tuple(raw["traits"]))


@dataclass(frozen=True, slots=True)
class Term:
    """A word that several examples have. `word` is None if it is known by its number only."""

    key: int
    weight: float
    examples: int
    word: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentKind:
    """What examples have in common.

    `terms` have the heaviest first. `base` is the score that three in four of the examples reach when each is compared
    with the others.
    """

    state: KindState
    examples: int
    base: float = 0.0
    terms: tuple[Term, ...] = ()
    traits: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the kind as JSON."""
        return {
            "state": self.state,
            "examples": self.examples,
            "base": self.base,
            "terms": [[each.key, each.weight, each.examples, each.word] for each in self.terms],
            "traits": dict(self.traits),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the kind that `to_json` wrote."""
        terms = tuple(Term(*each) for each in raw["terms"])
        return cls(raw["state"], raw["examples"], raw["base"], terms, raw["traits"])

    @property
    def is_ready(self) -> bool:
        """Whether documents can be compared with it."""
        return self.state == "ready"

    @property
    def digest(self) -> str:
        """What tells it from all others."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]

    def shows(self, term: Term) -> bool:
        """Return whether a word may be shown: at least two examples have it, and at least half of them."""
        return term.word is not None and term.examples >= max(2, (self.examples + 1) // 2)

    @property
    def words(self) -> tuple[str, ...]:
        """The heaviest words that may be shown."""
        return tuple(term.word for term in self.terms if term.word is not None and self.shows(term))
