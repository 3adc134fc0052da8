"""The scan job of the sandbox: one file in, one plain answer out. What is looked at lives in `walk`, what is looked for in `eicar` and `programs`."""

from typing import Final

from sluice.formats.source import Source
from sluice.threats import RULES_VERSION
from sluice.threats.budget import Budget, Meter, OverBudget
from sluice.threats.walk import ThreatFound, Walk

_DEFAULT_BUDGET: Final = Budget()


def scan_source(fd: int, filename: str, budget: Budget = _DEFAULT_BUDGET) -> dict[str, object]:
    """Look through the file behind `fd`, which stays open and whose offset is not moved; `filename` may be empty.

    Answers plain JSON values: `threat` (a name, or null), `complete` (all of it was looked at; false beside a threat, where
    looking ends), `why` it is not complete (empty beside a threat), `signatures` (the version of the rules) and `encrypted`
    (a zip member behind a password was met and could not be opened).
    """
    source = Source(fd)
    walk = Walk(Meter(budget, source.size))
    threat: str | None = None
    why = ""
    try:
        walk.look_at(source, filename)
    except ThreatFound as found:
        threat = found.name
    except OverBudget as limit:
        why = str(limit)
    return {
        "threat": threat,
        "complete": threat is None and not why,
        "why": why,
        "signatures": RULES_VERSION,
        "encrypted": walk.encrypted,
    }
