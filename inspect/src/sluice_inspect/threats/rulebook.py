"""The rules over bytes, written for YARA-X in `rules/`, and their findings. Applied to one window at a time.

A rule tagged `threat` ends the scan, one tagged `flag` is noted; `name` in its metadata is what is reported. Rules see
five variables: `kind` (the format of the bytes: `pdf`, `svg`, `html`, `vba_code`, `pdf_script` …, or empty), `says`
(what their name promises: `document`, `text` or nothing), `extension`, `is_program_name`, and `offset` (where the
window begins). In a regular expression, `PROGRAM_EXTENSIONS` is replaced by all extensions of programs, and
`SELF_STARTING` by an expression for the macros that Office runs by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import yara_x

from sluice_inspect.program_names import PROGRAM_EXTENSIONS
from sluice_inspect.threats import EICAR
from sluice_inspect.threats.vba import SELF_STARTING

_FOLDER: Final = Path(__file__).parent / "rules"


class ThreatFound(Exception):
    """A known threat, called `name`. Ends the scan."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(slots=True)
class ScanFindings:
    """Facts beside the verdict so far; sizes are in bytes, all levels of nesting together."""

    encrypted: bool = False  # a part is protected by a password, and cannot be opened
    unopened: set[str] = field(default_factory=set)  # packings that neither we nor clamd can open
    foreign: set[str] = field(default_factory=set)  # packings that only clamd can open
    flags: set[str] = field(default_factory=set)  # no threats, but worth knowing
    has_hidden_parts: bool = False  # clamd does not see a part, and there was no buffer to write it to
    largest: int = 0  # the largest unpacked part; of one that only clamd unpacks, its largest possible size
    # Parts written to the shared buffer: start, length, and whether all that is packed in them was opened here as well.
    written: list[tuple[int, int, bool]] = field(default_factory=list)


@cache
def compiled() -> yara_x.Rules:
    """Return the compiled rules. Compiling needs a file system: it is done before the sandbox locks itself."""
    compiler = yara_x.Compiler()
    for name in ("kind", "says", "extension"):
        compiler.define_global(name, "")
    compiler.define_global("is_program_name", False)
    compiler.define_global("offset", 0)
    extensions = "|".join(sorted(PROGRAM_EXTENSIONS))
    for path in sorted(_FOLDER.glob("*.yar")):
        source = path.read_text(encoding="utf-8")
        source = source.replace("PROGRAM_EXTENSIONS", extensions).replace("SELF_STARTING", SELF_STARTING)
        compiler.add_source(source, origin=path.name)
    return compiler.build()


@cache
def _scanner() -> yara_x.Scanner:
    return yara_x.Scanner(compiled())


def apply(
    data: bytes,
    findings: ScanFindings,
    *,
    format_name: str = "",
    promised: str = "",
    extension: str = "",
    is_program_name: bool = False,
    offset: int = 0,
) -> None:
    """Apply the rules to one window of bytes and note flags in `findings`. Raise `ThreatFound`."""
    # The test virus is the only rule for bytes of which nothing is known, such as most pictures and recordings.
    if not (format_name or promised) and EICAR not in data:
        return
    scanner = _scanner()
    scanner.set_global("kind", format_name)
    scanner.set_global("says", promised)
    scanner.set_global("extension", extension)
    scanner.set_global("is_program_name", is_program_name)
    scanner.set_global("offset", offset)
    for rule in scanner.scan(data).matching_rules:
        name = str(dict(rule.metadata)["name"])
        if "threat" in rule.tags:
            raise ThreatFound(name)
        findings.flags.add(name)
