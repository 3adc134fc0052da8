"""The files of 7z and RAR archives, read by `sluice.formats.archives`. What the reader there calls damaged is not looked into to its end.

Of the methods of 7z, clamd opens LZMA, LZMA2 and COPY with branch filters, and calls the rest OK; RAR it opens only with a library that
Debian does not ship with it (measured, 1.4.6). So those are opened here, by libarchive where our own readers cannot.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from sluice.formats.archives import libarchive, rar4, rar5
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.sevenzip_coders import refuse_unreadable
from sluice.formats.archives.sevenzip_header import Folder
from sluice.formats.archives.sevenzip_walk import content, read_directory
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Encrypted, Judgement, Limits, Unsafe, Unsupported
from sluice.threats.budget import OverBudget
from sluice.threats.bytesview import View
from sluice.threats.part import Locked, Part, Unknown

_COPY_AND_LZMA: Final = ("00", "21", "030101")
_BRANCH_FILTERS: Final = ("04", "03030103", "03030205", "03030401", "03030501", "03030701", "03030805")
_SEEN: Final = frozenset(map(bytes.fromhex, (*_COPY_AND_LZMA, *_BRANCH_FILTERS)))


def sevenzip_parts(view: View) -> Iterator[Part]:
    """Iterate over the files of a 7z archive. Raises `Locked`, `Unknown`, and `OverBudget` for one that is damaged: it may hide files."""
    return _judged("7z", _sevenzip, view)


def rar_parts(view: View) -> Iterator[Part]:
    """Iterate over the files of a RAR archive. Raises as `sevenzip_parts` does."""
    return _judged("rar", _rar, view)


def _judged(what: str, read: Callable[[View, Budget], Iterator[Part]], view: View) -> Iterator[Part]:
    with _in_our_words(what):
        for part in read(view, Budget(Limits(), view.size)):
            yield replace(part, content=_content(what, part.content))


def _content(what: str, content: Iterator[bytes]) -> Iterator[bytes]:
    with _in_our_words(what):
        yield from content


@contextmanager
def _in_our_words(what: str) -> Iterator[None]:
    try:
        yield
    except Encrypted as locked:
        raise Locked from locked
    except Unsupported as lacking:
        raise Unknown(what) from lacking
    except (Corrupt, Unsafe) as damage:
        raise OverBudget(f"a {what} archive that cannot be unpacked to its end: {damage}") from damage


def _sevenzip(view: View, budget: Budget) -> Iterator[Part]:
    streams, files, _trailing = read_directory(view, budget)
    faults = [_fault(folder) for folder in streams.folders]
    lacking = next((fault for fault in faults if isinstance(fault, Unsupported)), None)
    if lacking is not None and libarchive.is_installed() and not any(isinstance(fault, Encrypted) for fault in faults):
        yield from _by_libarchive(view, budget)
        return
    names = iter([file.name for file in files if file.has_stream])
    for index, folder in enumerate(streams.folders):
        unseen = not _SEEN.issuperset(coder.method for coder in folder.coders)
        feed = Feed(content(view, streams, index, budget) if faults[index] is None else ())
        for substream in streams.substreams[index]:
            taken = feed.pieces(substream.size)
            yield Part(next(names, ""), taken, unseen=unseen)
            for _ in taken:
                pass  # what was not looked at is still in the way of the next
    if fault := lacking or next(filter(None, faults), None):
        raise fault


def _fault(folder: Folder) -> Judgement | None:
    """Answer why a folder cannot be unpacked, None where it can."""
    try:
        refuse_unreadable(folder)
    except (Encrypted, Unsupported) as fault:
        return fault
    return None


def _rar(view: View, budget: Budget) -> Iterator[Part]:
    read_layout = rar5.read_layout if view.read_at(0, len(rar5.MAGIC)) == rar5.MAGIC else rar4.read_layout
    layout = read_layout(view, budget.limits)
    locked = [member.is_encrypted for member in layout.members]
    if layout.is_encrypted or (locked and all(locked)):
        raise Locked
    if layout.is_partial or any(locked):
        raise OverBudget(
            "a rar archive of which only a part can be unpacked here: one volume of several, or some of it behind a password"
        )
    yield from _by_libarchive(view, budget)


def _by_libarchive(view: View, budget: Budget) -> Iterator[Part]:
    for name, pieces in libarchive.members(view, budget):
        yield Part(name, pieces, unseen=True)
