"""No archive that is accepted leads outside in Python, GNU tar, bsdtar, 7z, BusyBox or Info-ZIP."""

from typing import Final

from tests.inspection.differential.comparing import PAIRS, Counts, compare
from tests.inspection.differential.readers import DEBIAN_PACKAGES
from tests.required import require
from tests.rows import each_row
from tests.run_length import amount

EVERY: Final = 25  # of the accepted archives: each costs a process per program
# Cases that were once accepted, each by another rule that was missing.
ONCE_ACCEPTED: Final = {
    "tar": (345, 978, 1107, 1343, 1242, 2355, 12278, 12661, 14048, 31334, 14679, 1185488, 4103996, 4257188, 4326488),
    "zip": (1204, 8633, 9232, 1194267, 1201209),
}


def found_in(name: str, numbers: range | tuple[int, ...], every: int) -> list[tuple[str, int, list[str]]]:
    counts = Counts()
    for _ in compare(PAIRS[name], numbers, counts, every=every):
        pass
    assert counts.accepted or every == 1, "the cases are all refused: they show nothing"
    return counts.found


@each_row("name", PAIRS)
def test_nothing_accepted_leads_outside_in_any_reader(name: str) -> None:
    for program, command in PAIRS[name].programs.items():
        require(program, command[0], apt=DEBIAN_PACKAGES[command[0]])
    assert found_in(name, range(amount("CASES", short=1500, full=200_000)), EVERY) == []


@each_row("name", PAIRS)
def test_nothing_accepted_leads_outside_in_python(name: str) -> None:
    assert found_in(name, range(10_000_000, 10_000_000 + amount("CASES", short=2000, full=200_000)), 10**9) == []


@each_row("name", PAIRS)
def test_cases_that_were_once_accepted_are_refused_or_harmless(name: str) -> None:
    assert found_in(name, ONCE_ACCEPTED[name], 1) == []
