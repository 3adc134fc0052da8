"""`docs/facts.md`: every fact and flag of a report. They are declared in `sluice_inspect.catalogue`."""

from docs_pages.markdown import made_from, page, table
from sluice_inspect.catalogue import FACTS, FLAGS
from sluice_inspect.registry import FORMATS

_INTRO = """
# Facts and flags

Every upload is measured, whatever the rules of its context are; only how
legible a picture is costs enough to be measured for the policy [`legible`](legible.md) alone. The report of the file check, which the decision log
keeps, has `facts` (numbers, yes or no, names) and `flags` (what a file has that many receivers do not want). Neither
refuses a file by itself. Rules are functions of these names; since they are measured even when no rule asks for them,
changed rules can be replayed over stored decisions.

A fact that is absent was not measured: the format has none, or damage or encryption hides it. Both lists are closed: a
report with another name is refused where it leaves the sandbox. Reports that were stored before a name was added lack
it.
"""

_FACTS = """
## Facts

Numbers are whole numbers. Names are sorted, each one once.
"""

_NAMES = """
### Names
"""

_FLAGS = """
## Flags

A flag is only sure when it is there. If the fact `flags_complete` is not `true`, something could not be searched: the
file is encrypted, damaged, of an unknown format, or too large for the time that a check has.
"""


def facts_page() -> str:
    """Return the page."""
    facts = [(f"`{name}`", fact.unit.value, fact.meaning, given_for(name)) for name, fact in FACTS.items()]
    names = [
        (f"`{name}`", ", ".join(f"`{each}`" for each in sorted(fact.names)))
        for name, fact in FACTS.items()
        if fact.names
    ]
    flags = [(f"`{name}`", meaning) for name, meaning in FLAGS.items()]
    return page(
        made_from("inspect/src/sluice_inspect/catalogue.py"),
        _INTRO,
        _FACTS,
        table(("Fact", "Unit", "Meaning", "Given for"), facts),
        _NAMES,
        table(("Fact", "Names that it may have"), names),
        _FLAGS,
        table(("Flag", "Meaning"), flags),
    )


def given_for(name: str) -> str:
    """Return the formats that have a fact, and when it is absent."""
    formats = sorted(each.name for each in FORMATS if name in each.gives)
    given = "every file" if len(formats) == len(FORMATS) else ", ".join(formats)
    return "; ".join(filter(None, (given, FACTS[name].limits)))
