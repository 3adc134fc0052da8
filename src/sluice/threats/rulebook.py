"""The rules over bytes, written for YARA-X in `rules/`: loaded once, applied to one window of bytes at a time. Opens nothing.

A rule tagged `threat` ends the look, one tagged `flag` is noted; `name` in its metadata is what is told. Rules see four variables:
`kind` (what the bytes are: `pdf`, `svg`, `html`, `vba`, `pdf_script` …, or empty), `says` (what their name promises: `document`, `text`
or nothing), `extension`, and `offset` (where the window begins).
"""

from functools import cache
from pathlib import Path
from typing import Final

import yara_x

from sluice.threats.eicar import EICAR
from sluice.threats.findings import Findings, ThreatFound

_FOLDER: Final = Path(__file__).parent / "rules"


@cache
def compiled() -> yara_x.Rules:
    """Answer the rules, ready to be applied. Compiling needs a file system: it is done before the sandbox locks itself."""
    compiler = yara_x.Compiler()
    for name in ("kind", "says", "extension"):
        compiler.define_global(name, "")
    compiler.define_global("offset", 0)
    for path in sorted(_FOLDER.glob("*.yar")):
        compiler.add_source(path.read_text(encoding="utf-8"), origin=path.name)
    return compiler.build()


@cache
def _scanner() -> yara_x.Scanner:
    return yara_x.Scanner(compiled())


def apply(data: bytes, findings: Findings, *, kind: str = "", says: str = "", extension: str = "", offset: int = 0) -> None:
    """Look at one window of bytes; raises `ThreatFound`."""
    if not (kind or says) and EICAR not in data:
        return  # of bytes of which nothing is known, only the test virus is looked for: what most pictures and recordings come to
    scanner = _scanner()
    scanner.set_global("kind", kind)
    scanner.set_global("says", says)
    scanner.set_global("extension", extension)
    scanner.set_global("offset", offset)
    for rule in scanner.scan(data).matching_rules:
        name = str(dict(rule.metadata)["name"])
        if "threat" in rule.tags:
            raise ThreatFound(name)
        findings.flags.add(name)
