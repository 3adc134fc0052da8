"""What a child can be asked of the product. Imported in children only; the judging lives in `formats` and `threats`."""

import encodings
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sluice.engines.sandbox.tray import TrayWriter
from sluice.formats import check as formats_check
from sluice.formats.registry import KINDS
from sluice.formats.source import Source
from sluice.formats.verdict import Outcome
from sluice.threats import scan as threats


def check(fd: int, filename: str) -> Mapping[str, object]:
    """Judge the format of the file behind `fd`: `Report.to_json`."""
    return formats_check.check_file(fd, filename=filename).to_json()


def scan(fd: int, filename: str) -> Mapping[str, object]:
    """Look for known threats in the file behind `fd`."""
    return _told(threats.scan_source(fd, filename))


def inspect(fd: int, filename: str) -> Mapping[str, object]:
    """Do both for one small file, `check` and `scan`: to hand a file over costs more than either. The scan goes without the name.

    It is left out (null) where the check found fault: most likely nobody will ask for it, and of a bomb it would take long.
    """
    source = Source(fd)
    report = formats_check.check_file(source, filename=filename)
    at_fault = report.finding is not None or report.integrity in {Outcome.CORRUPT, Outcome.TOO_COMPLEX}
    return {"check": report.to_json(), "scan": None if at_fault else _told(threats.scan_source(source, ""))}


def uncover(fd: int, filename: str, tray: TrayWriter) -> Mapping[str, object]:
    """Look for known threats, and lay out what clamd does not see."""
    return _told(threats.scan_source(fd, filename, tray))


def unpack(fd: int, filename: str, tray: TrayWriter) -> Mapping[str, object]:
    """Look for known threats, and lay out everything that is packed in the file."""
    return _told(threats.scan_source(fd, filename, tray, everything=True))


def _told(seen: Mapping[str, object]) -> Mapping[str, object]:
    """Leave out what is nothing (null, false, 0, empty), as most of what is seen in most files is: to say it costs as much as to see it."""
    return {name: value for name, value in seen.items() if value}


JOBS: Final[Mapping[str, Callable[..., Mapping[str, object]]]] = {
    "check": check, "scan": scan, "inspect": inspect, "uncover": uncover, "unpack": unpack,
}  # fmt: skip


def preload() -> None:
    """Load what a locked child can load no more: every parser, and every codec that a file could name."""
    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in {"cp65001", "mbcs", "oem"}:  # of Windows alone
            importlib.import_module(f"encodings.{module.name}")
    formats_check.preload()
    threats.preload()


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Answer for each format whose reader is installed its name, a file name, and what makes a small good file of it."""
    for kind in (kind for kind in KINDS if not kind.lacks):
        yield kind.name, f"sample.{min(kind.extensions)}", kind.sample
