"""Measure the policy `document_kind`: precision and recall by the number of examples, on documents of known kinds.

    python scripts/document_kinds.py FOLDER [--draws 20] [--drawn]

FOLDER has a folder for each kind, such as `invoice`, with documents; those in `other` are of no kind. Near copies of a
document are left out. Of each kind, 3, 5, 10 and 30 documents are drawn as examples, as often as `--draws` says; the
rest of the kind should be recognised, and nothing else. With `--drawn`, letters that this script draws are a kind too.
All is read, learnt and compared by the code that the locked child runs.
"""

import argparse
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sluice.contexts.policies import LikeExamples
from sluice_inspect.document_kinds import SCORE_MOST, WORDS_LEAST, Features, key_of
from sluice_inspect.document_text.kinds import _EXTENT, learn, score, traits_of, vector_of, words_of
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.report import InspectionError, Limits
from sluice_inspect.source import MemoryBacked

COUNTS: Final = (3, 5, 10, 30)
THRESHOLDS: Final = (50, 60, 70, 80, 90, 100)
OTHER: Final = "other"
_COPY: Final = 0.93
_SALT: Final = "measured"
_LETTERS: Final = 60

# Parts of letters, of which each drawn letter has some.
_GREETINGS: Final = ("Dear Ms {0}", "Dear Mr {0}", "Dear Sir or Madam", "To whom it may concern", "Dear {0} family")
_OPENINGS: Final = (
    "Thank you for your letter of {1} March, which reached our office last week.",
    "I am writing to you about the flat in {0} Street, where I have lived since {1} April.",
    "With reference to our telephone conversation, we confirm the appointment on {1} May.",
    "I refer to your advertisement, and would like to ask for further information.",
    "We regret to inform you that your application could not be considered this time.",
    "Following the meeting of the residents, I would like to raise two concerns.",
)
_MIDDLES: Final = (
    "The heating has not worked properly for several weeks, although it was reported twice.",
    "Please find enclosed the documents that you asked for, and let us know whether anything is missing.",
    "We would be grateful if you could reply before the end of the month.",
    "As agreed, the work will begin on Monday, and should be finished within a fortnight.",
    "I must ask you to give this matter your attention, since the situation has become difficult.",
    "Our records show that no answer has been received to our previous letter.",
    "My family and I would be pleased to welcome you during the summer.",
    "I apologise for the delay, which was caused by an illness in our department.",
    "Should you have any questions, please do not hesitate to contact me by telephone.",
)
_ENDS: Final = ("Yours sincerely", "Yours faithfully", "Kind regards", "With best wishes")
_NAMES: Final = (
    "Alvarez",
    "Brandt",
    "Castell",
    "Dvorak",
    "Eriksen",
    "Fontaine",
    "Gruber",
    "Hollis",
    "Ivanova",
    "Jansen",
)


@dataclass(frozen=True)
class Document:
    """A document of a kind, as the child reads it."""

    kind: str
    name: str
    features: Features
    milliseconds: float


@dataclass
class Judged:
    """What became of the documents that were compared with examples, for each draw."""

    recalls: list[float]
    precisions: list[float]
    refused: list[float]  # share of the documents of no or another kind that is refused


def main(arguments: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--drawn", action="store_true", help="draw letters, which are few in public")
    parser.add_argument("--list", action="store_true", help="name the documents that are judged wrongly most often")
    options = parser.parse_args(arguments)
    documents = _different(_load(options.folder, drawn=options.drawn))
    counts = Counter(each.kind for each in documents)
    times = sorted(each.milliseconds for each in documents if each.milliseconds)
    print(f"documents with text, without near copies: {dict(counts)}")
    print(f"ms to read one: median {statistics.median(times):.0f}, 95 % {times[len(times) * 95 // 100]:.0f}")
    wrong: Counter[str] = Counter()
    for kind in sorted(counts.keys() - {OTHER}):
        for count in COUNTS:
            if counts[kind] > count + 5:
                wrong += _show(kind, count, documents, options.draws)
    for name, times_wrong in wrong.most_common(30 if options.list else 0):
        print(f"  {times_wrong} times: {name}")
    _show_mixed(documents, options.draws)
    return 0


def _show(kind: str, count: int, documents: Sequence[Document], draws: int) -> Counter[str]:
    """Print precision and recall with so many examples, at the default threshold, and recall and refusals at others.

    Return how often each document is judged wrongly.
    """
    wrong: Counter[str] = Counter()
    threshold = LikeExamples().min_similarity
    chance = random.Random(count)  # noqa: S311  (draws of a measurement)
    own = [each for each in documents if each.kind == kind]
    vectors = {id(each): vector_of(each.features) for each in documents}
    judged = defaultdict[int, Judged](lambda: Judged([], [], []))
    states: Counter[str] = Counter()
    learning: list[float] = []
    for _draw in range(draws):
        examples = chance.sample(own, count)
        began = time.process_time()
        found = learn([each.features for each in examples])
        learning.append((time.process_time() - began) * 1000)
        states[found["state"]] += 1
        if found["state"] != "ready":
            continue
        learnt = {**dict(found["terms"]), **found["traits"]}
        base = found["base"] * SCORE_MOST
        taken = {id(each) for each in examples}
        likeness = [
            (each, 100 * score(learnt, vectors[id(each)]) / base) for each in documents if id(each) not in taken
        ]
        wrong.update(
            f"{each.name} ({each.kind}) among {kind}"
            for each, value in likeness
            if (value >= threshold) != (each.kind == kind)
        )
        for least in THRESHOLDS:
            accepted = [each for each, value in likeness if int(value) >= least]
            right = sum(each.kind == kind for each in accepted)
            others = sum(each.kind != kind for each in documents)
            judged[least].recalls.append(right / (len(own) - count))
            judged[least].precisions.append(right / len(accepted) if accepted else 1.0)
            judged[least].refused.append(1 - (len(accepted) - right) / others)
    if not judged:
        print(f"{kind:9} {count:2} examples: {dict(states)}")
        return wrong
    mean = statistics.mean
    at = judged[threshold]
    rest = ", ".join(
        f"{least}: {mean(each.recalls):.0%}/{mean(each.refused):.0%}"
        for least, each in judged.items()
        if least != threshold
    )
    print(
        f"{kind:9} {count:2} examples: precision {mean(at.precisions):.0%}, recall {mean(at.recalls):.0%} "
        f"(worst {min(at.recalls):.0%}), others refused {mean(at.refused):.0%} (worst {min(at.refused):.0%}); "
        f"recall/refused at {rest}; {statistics.median(learning):.0f} ms; {dict(states)}"
    )
    return wrong


def _show_mixed(documents: Sequence[Document], draws: int) -> None:
    """Print what is said of examples that are of several kinds."""
    by_kind: dict[str, list[Document]] = defaultdict(list)
    for each in documents:
        by_kind[each.kind].append(each)
    chance = random.Random(7)  # noqa: S311  (draws of a measurement)
    for count in COUNTS:
        states: Counter[str] = Counter()
        for _draw in range(10 * draws):
            kinds = [sorted(by_kind)[number % len(by_kind)] for number in range(count)]
            examples = [chance.choice(by_kind[kind]) for kind in kinds]
            states[learn([each.features for each in examples])["state"]] += 1
        print(f"examples of mixed kinds, {count:2}: {dict(states)}")


def _load(folder: Path, *, drawn: bool) -> Iterator[Document]:
    paths = sorted(path for path in folder.glob("*/*") if path.is_file())
    with ProcessPoolExecutor(2) as pool:
        yield from (each for each in pool.map(_read, paths, chunksize=8) if each is not None)
    if drawn:
        chance = random.Random(3)  # noqa: S311
        for number in range(_LETTERS):
            yield _of("letter (drawn)", f"letter {number}", _letter(chance))


def _read(path: Path) -> Document | None:
    """Return a document, None if it has no text to compare."""
    began = time.process_time()
    try:
        with MemoryBacked(path.read_bytes()) as source:
            text = read_text(source, path.name, _EXTENT, Limits())
    except (InspectionError, MemoryError, RecursionError):
        return None
    found = _of(path.parent.name, path.name, text, began)
    return found if len(found.features.terms) >= WORDS_LEAST else None


def _of(kind: str, name: str, text: str, began: float | None = None) -> Document:
    features = Features({key_of(word, _SALT): count for word, count in words_of(text).items()}, traits_of(text))
    return Document(kind, name, features, 0.0 if began is None else (time.process_time() - began) * 1000)


def _different(documents: Iterator[Document]) -> list[Document]:
    """Return the documents without those that are nearly the same as an earlier one of their kind."""
    kept: list[Document] = []
    vectors = defaultdict[str, list[dict[int | str, float]]](list)
    for each in documents:
        vector = vector_of(Features(each.features.terms, ()))
        if all(score(other, vector) < _COPY * SCORE_MOST for other in vectors[each.kind]):
            vectors[each.kind].append(vector)
            kept.append(each)
    return kept


def _letter(chance: random.Random) -> str:
    """Return a drawn letter."""
    name, day = chance.choice(_NAMES), chance.randrange(1, 28)
    middles = chance.sample(_MIDDLES, chance.randrange(2, 6))
    parts = [
        f"{chance.choice(_NAMES)}\n{day} {chance.choice(_NAMES)} Street\n{day} November 2026\n",
        f"{chance.choice(_GREETINGS).format(name)},\n",
        " ".join([chance.choice(_OPENINGS).format(name, day), *middles]),
        f"\n{chance.choice(_ENDS)},\n{chance.choice(_NAMES)}",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
