"""The YARA rules of the operator: applied to a whole file, and to each whole part that the walk unpacks from it.

They are compiled in a process of their own (`child.compile_rules`), and loaded before workers are forked and locked.
Rules may use the variables that public rule sets define: `filename` and `extension` are those of a member of an
archive, and empty for the file itself, since a verdict is one on the bytes; the others are empty.
"""

import io
import time
from dataclasses import dataclass, field
from typing import Final

import yara_x

from sluice_inspect.extensions import extension_of
from sluice_inspect.source import RandomAccess

VARIABLES: Final = ("filename", "extension", "filepath", "filetype", "owner")
SEVERITIES: Final = ("reject", "quarantine", "report")  # the most severe first
# Larger files are not copied into memory, which the rules need: conditions may ask for any byte.
MOST_BYTES: Final = 512 * 1024**2
MATCHES_MAX: Final = 20
META_MAX: Final = 8
META_TEXT_MAX: Final = 200
NAME_MAX: Final = 128
_FILE_MAX: Final = 200
# Processor time that the rules may take for one file with all its parts; the sandbox's own limit ends a single scan.
_CPU_SECONDS: Final = 15.0
_CPU_SECONDS_PER_MB: Final = 0.04
_MB: Final = 1024**2
_MATCHES_PER_PATTERN: Final = 100_000


@dataclass(slots=True)
class _Loaded:
    version: str = ""
    scanner: yara_x.Scanner | None = None


_loaded: Final = _Loaded()


def load(serialized: bytes, version: str) -> None:
    """Use these compiled rules from now on. Raise what yara_x raises for bytes that are none."""
    if version == _loaded.version:
        return
    scanner = yara_x.Scanner(yara_x.Rules.deserialize_from(io.BytesIO(serialized)))
    scanner.fast_scan(True)
    scanner.max_matches_per_pattern(_MATCHES_PER_PATTERN)
    scanner.scan(b"")  # allocates what a scan needs
    _loaded.version, _loaded.scanner = version, scanner


def begin(file_size: int) -> "OperatorScan | None":
    """Return the scan of one file by the rules that are loaded; None if there are none."""
    if _loaded.scanner is None:
        return None
    return OperatorScan(_loaded.version, _loaded.scanner, _CPU_SECONDS + _CPU_SECONDS_PER_MB * file_size / _MB)


@dataclass(slots=True)
class OperatorScan:
    """The matches in one file and in all its parts. `why` says what the rules were not applied to, empty if nothing."""

    version: str
    scanner: yara_x.Scanner
    cpu_seconds: float
    why: str = ""
    used_seconds: float = 0.0
    matches: dict[tuple[str, str], dict[str, object]] = field(default_factory=dict)

    def apply(self, source: RandomAccess, name: str) -> None:
        """Apply the rules to all of the bytes of a file, or of a part called `name`."""
        if self.used_seconds > self.cpu_seconds:
            return
        if source.size > MOST_BYTES:
            self.why = self.why or f"YARA rules are applied to at most {MOST_BYTES} bytes"
            return
        data = source.read_at(0, source.size)
        began = time.process_time()
        self.scanner.set_global("filename", name.encode(errors="replace").decode())
        self.scanner.set_global("extension", f".{extension}" if (extension := extension_of(name)) else "")
        try:
            rules = self.scanner.scan(data).matching_rules
        except (yara_x.ScanError, yara_x.TimeoutError) as error:
            self.why = self.why or f"YARA rules could not be applied: {printable(str(error), META_TEXT_MAX)}"
            return
        finally:
            self.used_seconds += time.process_time() - began
        for rule in rules:
            self._note(rule)
        if self.used_seconds > self.cpu_seconds:
            self.why = self.why or f"the YARA rules took more than {self.cpu_seconds:.0f} s of processor time"

    def skip(self, size: int) -> None:
        """Note that a part of more than `size` bytes could not be held in memory."""
        self.why = self.why or f"a part of more than {size} bytes, which YARA rules cannot be applied to"

    def to_json(self) -> dict[str, object]:
        """Return version, `why` and at most `MATCHES_MAX` matches, the most severe first, as plain JSON values."""
        matches = sorted(self.matches.values(), key=lambda match: SEVERITIES.index(str(match["severity"])))
        return {"version": self.version, "why": self.why, "matches": matches[:MATCHES_MAX]}

    def _note(self, rule: yara_x.Rule) -> None:
        key = (rule.namespace, rule.identifier)
        if key not in self.matches:
            meta = dict(rule.metadata)
            severity = str(meta.pop("severity", "")).lower()
            self.matches[key] = {
                "rule": rule.identifier[:NAME_MAX],
                "file": printable(rule.namespace, _FILE_MAX),
                # What is no severity of ours (public rules have `high`, `75`) must not let a file pass.
                "severity": severity if severity in SEVERITIES else SEVERITIES[0],
                "meta": {
                    name[:NAME_MAX]: printable(value, META_TEXT_MAX) if isinstance(value, str) else _plain(value)
                    for name, value in list(meta.items())[:META_MAX]
                },
            }


def printable(text: str, most: int) -> str:
    """Return text of at most `most` characters, each of which can be printed."""
    return "".join(each if each.isprintable() else "?" for each in text[:most])


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "replace"), META_TEXT_MAX)
    if isinstance(value, float):
        return printable(str(value), META_TEXT_MAX)  # it may be one that JSON has not
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        return str(value)
    return value
