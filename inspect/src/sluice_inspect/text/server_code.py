"""Whether text may be the code of a server page: VBScript, Visual Basic, JScript, C# or Java between `<%` and `%>`.

Pixels of pictures that are not compressed are printable for long stretches, and one in a hundred such pictures has both
marks around one. What is refused here is code in none of these languages.
"""

import re
from typing import Final

# One pass each, also over what does not end.
_COMMENT: Final = rb"|<!--[^\r\n]*+"
_COMMENTS_OF_C: Final = rb"/\*(?:[^*]++|\*(?!/)|(?!))*+(?:\*/)?|//[^\r\n]*+" + _COMMENT
_CHARACTERS: Final = rb"'(?:[^'\\\r\n]|\\.)*+(?:')?"
# What is skipped in each reading: comments, and strings without and with escapes.
_SKIPPED: Final = (
    (
        True,
        re.compile(
            rb'(?P<string>"(?:[^"\r\n]|"")*+(?:")?)|' rb"'[^\r\n]*+|\b(?i:rem)\b[^\r\n]*+" + _COMMENT, re.DOTALL
        ),
    ),
    (False, re.compile(rb'(?P<string>"(?:[^"\\\r\n]|\\.)*+(?:")?|' + _CHARACTERS + rb")|" + _COMMENTS_OF_C, re.DOTALL)),
    (False, re.compile(rb'(?P<string>"(?:[^"]|"")*+(?:")?|' + _CHARACTERS + rb")|" + _COMMENTS_OF_C, re.DOTALL)),
)
_ENCODED: Final = re.compile(rb"#@~\^|\A\s*+\+A[\w+/]{6}")  # by Microsoft's encoder of scripts, as UTF-7
_SIGN: Final = re.compile(rb"[=#:!@-]")  # that tells an expression, a declaration or a comment from statements
# An operator at the beginning or the end, or before what ends its operand; signs that mean nothing outside of strings.
_NEVER: Final = re.compile(rb"\A[<>%^|,]|[=<>*/^|,(\[]\Z|(?<!\+)\+\Z|(?<!-)-\Z|[`\"]|[=<^|]\s*+[;)\]]")
# A number before a name or a bracket, but for hexadecimal ones, times, the letters of types and operators.
_NEVER_A_NUMBER: Final = re.compile(
    rb"(?<![\w.$])\d[\d_]*+(?:(?!(?i:[box]|e[+-]?\d|(?:u?l|lu|[fdmusin]|u[sil]|[ap]m|then|to|step"
    rb"|and|x?or|mod|is|eqv|imp|else|in|instanceof)\b))[A-Za-z]|[(\[])"
)
_DOES: Final = re.compile(rb"[({}\x00\\]|[\w)\]$]\s*+=|\w\s++\S|\.\s*+[A-Za-z_]|\+\+|--")
_ONLY_A_NUMBER: Final = re.compile(rb"[\d.\s;]*+\Z")
_NEVER_IN_BASIC: Final = re.compile(
    rb"(?<!\w)\$|\?(?![.)\s,(])"
    rb"|[;~|]|[=(,<*^:]\s*+[%|]|(?<!\w)@(?!\w)"
)
_NEVER_IN_C: Final = re.compile(
    rb"[\w)\]]\s*+@|[*/,.!~?]\s*+;|(?<![\w$])\$(?![\w$(.\[\x00{])"
    rb"|[&%]\Z|[=(,;<*^!~?:%]\s*+[%|]|@(?![\w$\x00])|(?<![\r\n])#|\\(?!u)|'|[%&]\s*+[;)\]]|\x00[ \t]*+[\x00A-Z0-9]"
)
_OPENING: Final = {ord(")"): ord("("), ord("]"): ord("[")}


def may_be_server_code(text: bytes) -> bool:
    """Return whether text from behind `<%` to the next `%>` may be code."""
    sign = _SIGN.match(text)
    code = text[sign.end() if sign else 0 :].removesuffix(b"%>").strip()
    return _ENCODED.search(text) is not None or any(
        _may_be(skipped, code, is_basic=is_basic, is_expression=text[:1] in b"=:#") for is_basic, skipped in _SKIPPED
    )


def _may_be(skipped: re.Pattern[bytes], code: bytes, *, is_basic: bool, is_expression: bool) -> bool:
    left = skipped.sub(_replacement, code).strip()
    if left and (_ONLY_A_NUMBER.match(left) if is_expression else not _DOES.search(left)):
        return False
    if _NEVER_A_NUMBER.search(left):
        return False
    never = _NEVER_IN_BASIC if is_basic else _NEVER_IN_C
    return not _NEVER.search(left) and not never.search(left) and _is_balanced(left)


def _replacement(skipped: re.Match[bytes]) -> bytes:
    """Return nothing for a comment, a zero byte for a string, and a quotation mark for one that does not end."""
    string = skipped["string"]
    if not string:
        return b""
    return b"\0" if len(string) > 1 and string[:1] == string[-1:] else b'"'


def _is_balanced(code: bytes) -> bool:
    open_ones = []
    for sign in code:
        if sign in b"([":
            open_ones.append(sign)
        elif sign in b")]" and (not open_ones or open_ones.pop() != _OPENING[sign]):
            return False
    return not open_ones
