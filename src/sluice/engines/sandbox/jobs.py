"""What a child can be asked of the product: `check` and `scan`. Imported in children only; the judging lives in `formats` and `threats`."""

import encodings
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sluice.formats import check as formats_check
from sluice.formats.registry import KINDS
from sluice.threats import scan_source


def check(fd: int, filename: str) -> Mapping[str, object]:
    """Judge the format of the file behind `fd`: `Report.to_json`."""
    return formats_check.check_file(fd, filename=filename).to_json()


def scan(fd: int, filename: str) -> Mapping[str, object]:
    """Look for known threats in the file behind `fd`."""
    return scan_source(fd, filename)


JOBS: Final[Mapping[str, Callable[[int, str], Mapping[str, object]]]] = {"check": check, "scan": scan}


def preload() -> None:
    """Load what a locked child can load no more: every parser, and every codec that a file could name."""
    for module in pkgutil.iter_modules(encodings.__path__):
        if module.name not in {"cp65001", "mbcs", "oem"}:  # of Windows alone
            importlib.import_module(f"encodings.{module.name}")
    formats_check.preload()


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Answer for each format its name, a file name, and what makes a small good file of it."""
    for kind in KINDS:
        yield kind.name, f"sample.{min(kind.extensions)}", kind.sample
