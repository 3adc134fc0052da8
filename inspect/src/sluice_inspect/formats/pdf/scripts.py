"""The scripts of a PDF as its reader runs them: decoded, with escapes, comments and joined strings resolved."""
# Not an interpreter: what a script computes out of numbers or by reversing words stays unseen. Everything here is one
# pass of one expression over the text, in linear time.

import codecs
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Final
from urllib.parse import unquote

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
_SAMPLE_BYTES: Final = 1024
_ZEROS_SHARE: Final = 4  # one of this many bytes is zero in UTF-16 of Latin text, and hardly one in any other script

_ESCAPE: Final = re.compile(
    r"\\(?:u\{0*([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-3]?[0-7]{1,2})"
    r"|(\r\n|[\r\n\u2028\u2029])|(.))"
)
_LITERAL: Final = r"\"[^\"\n]*\"|'[^'\n]*'|`[^`]*`"
# Strings come first, so that what they hold is no comment. One without end is taken as a lone quotation mark.
_STRING_OR_COMMENT: Final = re.compile(rf"({_LITERAL})|/\*.*?(?:\*/|\Z)|//[^\n\r\u2028\u2029]*", re.DOTALL)
_COMMENT: Final = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_CHARACTER_CODES: Final = re.compile(r"fromCharCode\s*\(([\d\sxXa-fA-F,]{1,10000})\)")
_JOINT: Final = re.compile(r"[\"'`]\s*(?:\)\s*)*(?:\+|,|\.\s*concat\s*\()\s*(?:\(\s*)*[\"'`]")
_HOLE: Final = re.compile(r"\$\{\s*(?:\"([^\"\n]{0,1000})\"|'([^'\n]{0,1000})'|`([^`]{0,1000})`)\s*\}")
_ASSIGNED: Final = re.compile(rf"(?<![\w$.])([A-Za-z_$][\w$]{{0,60}})\s*=\s*({_LITERAL})")
_NAME: Final = re.compile(r"(?<![\w$.\"'`])[A-Za-z_$][\w$]*(?![\w$\"'`])")
# Names are replaced by short strings in scripts of some length only, since the text grows by it.
_VALUE_MAX: Final = 40
_REPLACED_MAX: Final = 512 * 1024


def decode_script(data: bytes) -> str:
    """Return the text of a script stream: UTF-16 and UTF-8 by their marks or zero bytes, else PDFDocEncoding."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    sample = data[:_SAMPLE_BYTES]
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if max(even, odd) * _ZEROS_SHARE > len(sample):
        return data.decode("utf-16-le" if odd > even else "utf-16-be", "replace")
    return data.decode("latin-1")  # as far as ASCII, which is all that is searched


def readings_of(scripts: Iterable[str]) -> Iterator[str]:
    """Yield the scripts of one document together, which share their variables, as written and with less and less
    disguise.
    """
    text = "\n".join(scripts)
    yield text
    escaped = unquote(_ESCAPE.sub(_unescaped, unescape(text)))
    yield escaped
    spelt = _CHARACTER_CODES.sub(_characters, escaped)
    for plain in (_STRING_OR_COMMENT.sub(_kept, spelt), _COMMENT.sub(" ", spelt), spelt):
        yield _joined(plain)
        if len(plain) <= _REPLACED_MAX:
            yield _joined(_with_values(plain))


def _joined(text: str) -> str:
    """Join strings, those in the holes of template literals too."""
    joined = _JOINT.sub("", text)
    filled = _HOLE.sub(lambda hole: hole[1] or hole[2] or hole[3] or "", joined)
    return joined if filled == joined else _JOINT.sub("", filled)


def _with_values(text: str) -> str:
    values = {found[1]: found[2] for found in _ASSIGNED.finditer(text) if len(found[2]) <= _VALUE_MAX}
    return _NAME.sub(lambda name: values.get(name[0], name[0]), text) if values else text


def _unescaped(escape: re.Match[str]) -> str:
    hexadecimal = escape[1] or escape[2] or escape[3]
    if hexadecimal or escape[4]:
        code = int(hexadecimal, 16) if hexadecimal else int(escape[4], 8)
        return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else "\ufffd"
    return "" if escape[5] else escape[0] if escape[6] in "\"'`\\" else escape[6]


def _kept(found: re.Match[str]) -> str:
    return found[1] or " "


def _characters(found: re.Match[str]) -> str:
    codes = [code.strip() for code in found[1].split(",")]
    numbers = [int(code, 0) for code in codes if re.fullmatch(r"0[xX][0-9a-fA-F]{1,6}|0|[1-9]\d{0,6}", code)]
    return '("' + "".join(chr(number) for number in numbers if 0x20 <= number < 0xD800) + '")'
