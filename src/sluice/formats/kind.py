"""What a format declares of itself. One value per format, in `kinds/<format>.py`; the list of them is `registry.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def never_blank(_source: Source, _limits: Limits) -> str | None:
    """Answer the blank rule of a kind that has none."""
    return None


@dataclass(frozen=True, slots=True)
class Kind:
    """One format.

    `recognises` looks at the bytes (never the name) and is cheap. `check` answers measured values of a sound file, or raises a
    `Judgement`. `blank` answers why a reader would see nothing, or None; it runs only when `check` was satisfied, and a
    `Judgement` raised there means that it cannot tell: not blank. `sample` makes a small good file for the start-up self-test.
    """

    name: str
    content_type: str
    extensions: frozenset[str]
    """Lower case, without the dot: the names that promise this content."""
    recognises: Callable[[Source], bool]
    check: Callable[[Source, Limits], Mapping[str, Measure]]
    sample: Callable[[], bytes]
    blank: Callable[[Source, Limits], str | None] = never_blank
    also_named: frozenset[str] = frozenset()
    """Names that promise another kind, under which this content is no mismatch either: .mkv for WebM."""
    lacks: str = ""
    """The optional library that reads this content and is not installed: it is `unsupported` then, and its sample cannot be judged."""
    is_text: bool = False
    """Text kinds are told apart by their extension, since their bytes have no signature."""
