"""The scan jobs of the sandbox: one file in, one plain answer out. What is looked at lives in `walk`, what is looked for in `rulebook`."""

from typing import Final

from sluice.formats.archives.nested import Held
from sluice.formats.source import Source
from sluice.threats import RULES_VERSION, unpdf
from sluice.threats.budget import Budget, Meter, NoRoom, OverBudget
from sluice.threats.findings import ThreatFound
from sluice.threats.walk import Lay, Walk

_DEFAULT_BUDGET: Final = Budget()
_MOST_LAID: Final = 4_000
"""Parts laid out by one scan: an answer has only so much room for their places."""
_MOST_NAMED: Final = 50


def scan_source(
    file: int | Source, filename: str, lay: Lay | None = None, budget: Budget = _DEFAULT_BUDGET, *, everything: bool = False
) -> dict[str, object]:
    """Look through a file, or the one behind a descriptor, which stays open and whose offset is not moved; `filename` may be empty.

    Answers plain JSON values: `threat` (a name, or null), `complete` (all of it was looked at; false beside a threat, where
    looking ends), `why` it is not complete (empty beside a threat), `signatures` (the version of the rules), `encrypted` (a part behind a
    password was met and could not be opened), `opened` (the file is packed in ways that are all opened here), `crowded` (there was no room to lay
    all parts out), `hides` (without `lay`: there are parts that clamd does not see), `flags`, `unopened` and `foreign` (see `Findings`),
    `largest` (bytes of the largest part), `unpacked` (bytes of all parts), `members` and `depth`. With `lay`, parts are laid out as `Walk` says, and `laid` tells where: start,
    length, and whether the part was opened here as well.
    """
    source = file if isinstance(file, Source) else Source(file)
    meter = Meter(budget, source.size)
    walk = Walk(meter, lay, everything=everything)
    threat: str | None = None
    why = ""
    opened = crowded = False
    try:
        opened = walk.look_at(source, filename)
        if len(walk.findings.laid) > _MOST_LAID:
            why = f"more than {_MOST_LAID} parts that clamd does not see"
    except ThreatFound as found:
        threat = found.name
    except OverBudget as limit:
        why, crowded = str(limit), isinstance(limit, NoRoom)
    facts = walk.findings
    answer: dict[str, object] = {
        "threat": threat,
        "complete": threat is None and not why,
        "why": why,
        "signatures": RULES_VERSION,
        "encrypted": facts.encrypted,
        "opened": opened,
        "crowded": crowded,
        "hides": facts.hides,
        "flags": sorted(facts.flags),
        "unopened": sorted(facts.unopened)[:_MOST_NAMED],
        "foreign": sorted(facts.foreign)[:_MOST_NAMED],
        "largest": facts.largest,
        "unpacked": meter.total_bytes,
        "members": meter.members,
        "depth": meter.depth,
    }
    return answer if lay is None else {**answer, "laid": [] if why or threat else [list(place) for place in facts.laid]}


def preload() -> None:
    """Load now all that a scan loads when it first needs it: a locked child can open no file."""
    sample = unpdf.sample()
    Walk(Meter(_DEFAULT_BUDGET, len(sample))).look_at(Held(bytearray(sample)), "sample.pdf")
