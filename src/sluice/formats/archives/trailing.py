"""What stands behind the end of an archive: padding, a mail gateway's footer, or a sign that something is wrong. Where archives end is known elsewhere."""

import re
from typing import Final

from sluice.formats.archives.feed import Feed
from sluice.formats.text.webpage import is_web_page
from sluice.formats.verdict import Corrupt, Finding, Unsafe

_LOOKED_AT: Final = 1024 * 1024
_SECOND_FORMATS: Final = {
    b"PK\x03\x04": "a ZIP archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"%PDF-": "a PDF document",
}


def judge_trailing(feed: Feed, name: str, begin: re.Pattern[bytes] | None) -> int:
    """Read a feed to its end and answer how many bytes there were.

    Raises `Corrupt` for an HTML page, and for a `begin` of what should have been read before; `Unsafe` for another format.
    """
    start = feed.position
    head = feed.peek(_LOOKED_AT)
    if is_web_page(head):
        raise Corrupt(f"an HTML page is saved behind the {name} data: a web server's answer, not the file itself")
    refuse_second_format(head, name, start)
    if begin is not None and (found := begin.search(head)):
        raise Corrupt(f"the {name} data is damaged at byte {start}: it goes on at byte {start + found.start()}")
    while feed.piece():
        pass
    return feed.position - start


def refuse_second_format(behind: bytes, name: str, start: int) -> None:
    """Raise `Unsafe` when what stands behind an archive, from byte `start` on, is an archive or a document that readers find there."""
    for magic, second in _SECOND_FORMATS.items():
        if behind.startswith(magic):
            raise Unsafe(Finding.POLYGLOT, f"behind the {name} data, at byte {start}, {second} begins")
