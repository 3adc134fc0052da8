"""Run cases through our own reader, and what it accepts through others: nothing accepted may lead outside in any."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluice_inspect.archives.tar import TAR
from sluice_inspect.archives.zip.archive import ZIP
from sluice_inspect.budget import Budget
from sluice_inspect.report import Encrypted, InspectionError, Limits, Unsupported
from sluice_inspect.source import MemorySource
from sluice_inspect.unpacking import Feed
from tests.inspection.differential import readers
from tests.inspection.differential.tar_cases import tar_case
from tests.inspection.differential.zip_cases import zip_case


@dataclass(frozen=True, slots=True)
class Pair:
    """A format's cases, our reader, and the readers that it is compared with."""

    case: Callable[[int], bytes]
    accepts: Callable[[bytes], bool]
    outside_in_python: Callable[[bytes], list[str]]
    programs: Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Counts:
    """What was compared, and what was accepted that a reader reads outside: reader, number of the case, and what."""

    cases: int = 0
    accepted: int = 0
    by_program: dict[str, int] = field(default_factory=dict)
    found: list[tuple[str, int, list[str]]] = field(default_factory=list)


class _Reading:
    """Reads every member to its end and looks for nothing in it: an archive in it counts as one of its own."""

    def member(self, _name: str, pieces: Iterator[bytes]) -> None:
        for _ in pieces:
            pass

    def payload(self, pieces: Iterator[bytes]) -> None:
        self.member("", pieces)


def _accepts_tar(data: bytes) -> bool:
    return _passes(lambda: TAR.walk(Feed([data]), Budget(Limits(), len(data)), _Reading()))


def _accepts_zip(data: bytes) -> bool:
    source = MemorySource(bytearray(data))
    return _passes(lambda: ZIP.walk(source, Budget(Limits(), len(data)), _Reading()))


def _passes(walk: Callable[[], object]) -> bool:
    try:
        walk()
    except (Encrypted, Unsupported):
        return True
    except InspectionError:
        return False
    return True


PAIRS: Final = {
    "tar": Pair(tar_case, _accepts_tar, readers.outside_in_tarfile, readers.TAR_PROGRAMS),
    "zip": Pair(zip_case, _accepts_zip, readers.outside_in_zipfile, readers.ZIP_PROGRAMS),
}


def compare(pair: Pair, numbers: Iterable[int], counts: Counts, *, every: int) -> Iterator[None]:
    """Compare case by case, and yield behind each. The programs get one in `every` of the accepted cases."""
    programs = readers.installed(pair.programs)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "case"
        for number in numbers:
            data = pair.case(number)
            counts.cases += 1
            if pair.accepts(data):
                counts.accepted += 1
                _note(counts, "python", number, pair.outside_in_python(data))
                if counts.accepted % every == 0:
                    file.write_bytes(data)
                    for name, command in programs.items():
                        counts.by_program[name] = counts.by_program.get(name, 0) + 1
                        _note(counts, name, number, readers.outside_in_listing(command, file))
            yield


def _note(counts: Counts, reader: str, number: int, outside: list[str]) -> None:
    if outside:
        counts.found.append((reader, number, outside[:3]))
