"""What can be asked about the text of a document, as the server writes it and a locked child reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, Self

CHARACTERS_MOST: Final = 1_000_000  # of a document; what is behind them is not read
PAGES_MOST: Final = 50
OCR_PAGES_MOST: Final = 10  # pictures and scanned pages
OCR_LANGUAGES_MOST: Final = 5  # each makes the reading slower
IDENTIFIERS_MOST: Final = 1_000  # more of a kind are not counted

# Numbers that are recognised by their form and their checksum.
Identifier = Literal["payment_card", "iban", "us_ssn", "de_tax_id"]
# Languages that are distinguished, as codes of ISO 639-1.
Language = Literal[
    "ar", "cs", "da", "de", "el", "en", "es", "fr", "he", "hi", "it", "ja", "ko", "nl", "pl", "pt", "ro", "ru", "sv",
    "tr", "uk", "zh",
]  # fmt: skip
# Why a document has no text: its format has none, it is damaged, needs a password, or takes too long.
NoTextReason = Literal["format", "damaged", "encrypted", "too_complex"]


@dataclass(frozen=True, slots=True)
class Words:
    """Something that a text may contain: one of the phrases, as whole words, or a match of a pattern in RE2 syntax."""

    phrases: tuple[str, ...] = ()
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about the text of one document.

    `labels` are the words in front of the date that is asked for; without any, no date is. `today` is in UTC.
    """

    words: tuple[Words, ...]
    labels: tuple[str, ...]
    identifiers: tuple[Identifier, ...]
    today: date

    def to_json(self) -> dict[str, Any]:
        """Return the question as JSON."""
        return {
            "words": [{"phrases": list(each.phrases), "pattern": each.pattern} for each in self.words],
            "labels": list(self.labels),
            "identifiers": list(self.identifiers),
            "today": self.today.isoformat(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the question that `to_json` wrote."""
        return cls(
            tuple(Words(tuple(each["phrases"]), each["pattern"]) for each in raw["words"]),
            tuple(raw["labels"]),
            tuple(raw["identifiers"]),
            date.fromisoformat(raw["today"]),
        )
