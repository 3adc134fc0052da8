"""The files of 7z and RAR archives, read by `sluice_inspect.archives`."""
# Of the methods of 7z, clamd opens LZMA, LZMA2 and COPY with branch filters, and reports OK for the rest; RAR it opens
# only with a library that Debian does not ship with it (measured, 1.4.6).

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.rar.headers import read_layout
from sluice_inspect.archives.sevenzip.coders import refuse_unreadable
from sluice_inspect.archives.sevenzip.header import Folder
from sluice_inspect.archives.sevenzip.walk import folder_content, read_directory
from sluice_inspect.budget import Budget
from sluice_inspect.parts import Part, PasswordRequired, UnknownPacking
from sluice_inspect.report import Corrupt, Encrypted, InspectionError, Limits, Unsafe, Unsupported
from sluice_inspect.source import RandomAccess
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.unpacking import Feed

_COPY_AND_LZMA: Final = ("00", "21", "030101")
_BRANCH_FILTERS: Final = ("04", "03030103", "03030205", "03030401", "03030501", "03030701", "03030805")
_OPENED_BY_CLAMD: Final = frozenset(map(bytes.fromhex, (*_COPY_AND_LZMA, *_BRANCH_FILTERS)))


def sevenzip_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the files of a 7z archive. Raise `OverBudget` for a damaged one: it may hide files."""
    return _translated("7z", _sevenzip, source)


def rar_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the files of a RAR archive. Raise as `sevenzip_parts` does."""
    return _translated("rar", _rar, source)


def _translated(
    name: str, read: Callable[[RandomAccess, Budget], Iterator[Part]], source: RandomAccess
) -> Iterator[Part]:
    with _translate_errors(name):
        for part in read(source, Budget(Limits(), source.size)):
            yield replace(part, content=_translated_content(name, part.content))


def _translated_content(name: str, content: Iterator[bytes]) -> Iterator[bytes]:
    with _translate_errors(name):
        yield from content


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    try:
        yield
    except Encrypted as reason:
        raise PasswordRequired from reason
    except Unsupported as reason:
        raise UnknownPacking(name) from reason
    except (Corrupt, Unsafe) as reason:
        raise OverBudget(f"a {name} archive that cannot be unpacked to its end: {reason}") from reason


def _sevenzip(source: RandomAccess, budget: Budget) -> Iterator[Part]:
    directory = source.cached(read_directory, budget.limits)
    table = directory.table
    faults = [_fault(folder) for folder in table.folders]
    unsupported = next((fault for fault in faults if isinstance(fault, Unsupported)), None)
    is_encrypted = any(isinstance(fault, Encrypted) for fault in faults)
    if unsupported is not None and libarchive.is_installed() and not is_encrypted:
        yield from _by_libarchive(source, budget)
        return
    names = iter([file.name for file in directory.files if file.has_stream])
    for index, folder in enumerate(table.folders):
        hidden_from_clamd = not _OPENED_BY_CLAMD.issuperset(coder.method for coder in folder.coders)
        feed = Feed(folder_content(source, table, index, budget) if faults[index] is None else ())
        for substream in table.substreams[index]:
            content = feed.pieces(substream.size)
            yield Part(next(names, ""), content, hidden_from_clamd=hidden_from_clamd)
            for _ in content:
                pass  # what was not read of a file comes before the next one
    if fault := unsupported or next(filter(None, faults), None):
        raise fault


def _fault(folder: Folder) -> InspectionError | None:
    try:
        refuse_unreadable(folder)
    except (Encrypted, Unsupported) as fault:
        return fault
    return None


def _rar(source: RandomAccess, budget: Budget) -> Iterator[Part]:
    layout = source.cached(read_layout, budget.limits)
    encrypted = [member.is_encrypted for member in layout.members]
    if layout.is_encrypted or (encrypted and all(encrypted)):
        raise PasswordRequired
    if layout.is_partial or any(encrypted):
        raise OverBudget(
            "a rar archive of which only a part can be unpacked here: one volume of several, or some of it behind a"
            " password"
        )
    yield from _by_libarchive(source, budget)


def _by_libarchive(source: RandomAccess, budget: Budget) -> Iterator[Part]:
    for name, pieces in libarchive.members(source, budget):
        yield Part(name, pieces, hidden_from_clamd=True)
