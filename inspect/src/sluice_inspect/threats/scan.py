"""The scan jobs of the sandbox: one file in, one plain report out."""

from typing import Final

from sluice_inspect.registry import OPENERS
from sluice_inspect.source import MemorySource, Source
from sluice_inspect.text.late_pattern import LatePattern
from sluice_inspect.threats import RULES_VERSION, encoded, operator_rules
from sluice_inspect.threats.budget import BufferFull, Meter, OverBudget, ScanBudget
from sluice_inspect.threats.rulebook import ThreatFound
from sluice_inspect.threats.walk import PartWriter, ThreatWalk

_DEFAULT_BUDGET: Final = ScanBudget()
_MAX_WRITTEN_PARTS: Final = 4_000  # a report has only so much room for the places of written parts
_MAX_NAMES: Final = 50


def scan_source(
    file: int | Source,
    filename: str,
    writer: PartWriter | None = None,
    budget: ScanBudget = _DEFAULT_BUDGET,
    *,
    everything: bool = False,
) -> dict[str, object]:
    """Scan a file, or the one behind a descriptor, which stays open and is not moved. `filename` may be empty.

    Return plain JSON values:

    - `threat`: its name, or null; `signatures`: the version of the rules
    - `complete`: all of it was scanned (false beside a threat, where the scan ends)
    - `why`: why it is not complete (empty beside a threat)
    - `encrypted`: a part needs a password and could not be opened
    - `opened`: the file is packed in ways that are all opened here
    - `hides`: without `writer`, there are parts that clamd does not see
    - `crowded`: there was no room to write all parts
    - `flags`, `unopened`, `foreign`, `largest` (bytes of the largest part): see `ScanFindings`
    - `unpacked` (bytes of all parts), `members`, `depth`: see `Meter`
    - `yara`, without `writer`, if rules of the operator are loaded: see `OperatorScan.to_json`
    - `laid`, with `writer`: start and length of each written part, and whether it was opened here as well
    """
    if isinstance(file, int):
        with Source(file) as source:
            return scan_source(source, filename, writer, budget, everything=everything)
    meter = Meter(budget, file.size)
    # Parts are written after a scan without `writer`, which has applied the operator's rules.
    operator_scan = operator_rules.begin(file.size) if writer is None else None
    walk = ThreatWalk(meter, writer, everything=everything, operator_scan=operator_scan)
    threat: str | None = None
    why = ""
    opened = buffer_was_full = False
    try:
        opened = walk.scan(file, filename)
        if len(walk.findings.written) > _MAX_WRITTEN_PARTS:
            why = f"more than {_MAX_WRITTEN_PARTS} parts that clamd does not see"
    except ThreatFound as found:
        threat = found.name
    except OverBudget as limit:
        why, buffer_was_full = str(limit), isinstance(limit, BufferFull)
    findings = walk.findings
    report: dict[str, object] = {
        "threat": threat,
        "complete": threat is None and not why,
        "why": why,
        "signatures": RULES_VERSION,
        "encrypted": findings.encrypted,
        "opened": opened,
        "crowded": buffer_was_full,
        "hides": findings.has_hidden_parts,
        "flags": sorted(findings.flags),
        "unopened": sorted(findings.unopened)[:_MAX_NAMES],
        "foreign": sorted(findings.foreign)[:_MAX_NAMES],
        "largest": findings.largest,
        "unpacked": meter.unpacked_bytes,
        "members": meter.members,
        "depth": meter.depth,
    }
    if operator_scan is not None:
        report["yara"] = operator_scan.to_json()
    if writer is not None:
        report["laid"] = [] if why or threat else [list(part) for part in findings.written]
    return report


def preload() -> None:
    """Load all that a scan loads when it first needs it: a locked child cannot open files."""
    encoded.preload()
    for sample in (opener.sample() for opener in OPENERS.values() if opener.sample is not None):
        ThreatWalk(Meter(_DEFAULT_BUDGET, len(sample))).scan(MemorySource(bytearray(sample)), "")
    LatePattern.compile_all()
