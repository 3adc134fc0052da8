"""The form in which texts are compared: compatible characters are the same, and so is all white space."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# PDFium writes U+FFFE or U+0002 for a hyphen at the end of a line, behind which the word continues.
_HYPHENS: Final = re.compile("[\ufffe\x02][\\r\\n ]*")
# Soft hyphens and what has no width.
_INVISIBLE: Final = dict.fromkeys(map(ord, "\xad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"))
# Words are normalised one by one, in parts: the order of many marks on one letter takes quadratic time.
_WORD: Final = re.compile(r"[^\s]{1,200}")
# A space beside a sign of Chinese or Japanese: they have none between words, and the end of a line may be anywhere.
_SIGN: Final = "[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f]"
_BESIDE_SIGN: Final = re.compile(f"(?<={_SIGN}) | (?={_SIGN})")


def normalised(text: str) -> str:
    """Return a text with compatible characters replaced, and one space for each run of white space."""
    if not text.isascii() or "\x02" in text:
        text = _HYPHENS.sub("", text).translate(_INVISIBLE)
        text = _WORD.sub(lambda word: unicodedata.normalize("NFKC", word[0]), text)
    return " ".join(text.split())


def folded(text: str) -> str:
    """Return a normalised text without the difference of upper and lower case."""
    return text.lower() if text.isascii() else normalised(text.casefold())


def compact(text: str) -> str:
    """Return a normalised text without the spaces beside signs of Chinese or Japanese."""
    return text if text.isascii() else _BESIDE_SIGN.sub("", text)
