"""Tells a web page that was saved in place of a file, or in front of it. Judges no HTML: that is a kind of its own."""

import re
from typing import Final

_PAGE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+\s*+(?:<\?xml[^>]{0,200}+>\s*+)?+(?:<!--(?:(?!-->).)*+-->\s*+)*+<(?:!doctype\s++html|html|head|body|title|script|meta|h1|center)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Possessive throughout, so that hostile bytes cost one pass."""
_LOOKED_AT: Final = 4096


def is_web_page(head: bytes) -> bool:
    """Whether these first bytes of something are the beginning of an HTML page, as error pages of web servers are."""
    return _PAGE.match(head[:_LOOKED_AT]) is not None
