"""Scripts and web pages anywhere in a binary file: PHP and server pages, which run from any place, and HTML."""
# A server that runs a file as PHP copies what is before a tag to its answer, and mshta skips what is before a page. In
# packed data a mark of three letters occurs by chance, so that what follows must be code.

import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.archives.finder import find_all
from sluice_inspect.text.php_code import may_be_php_code
from sluice_inspect.text.server_code import may_be_server_code

# The bracket is outside of the groups: it alone is searched for. None of the alternatives looks ahead far, so that the
# search is linear; what follows a short mark is examined only where there is one.
_KEYWORDS: Final = (
    rb"(?:if|for|foreach|while|do|try|switch|goto|function|class|abstract|final|interface|trait|enum|namespace|use"
    rb"|static|global|declare|unset|list|array|print|echo|return|throw|include|include_once|require|require_once|exit"
    rb"|die|eval|const|match|fn|new)(?!\w)"
)
_MARKS: Final = re.compile(
    rb"<(?:"
    rb"\?(?:(?P<php>[pP][hH][pP](?=[ \t\r\n]))|(?P<short>=|[ \t\r\n]|(?=[$#/;{@+\-~!(\[\"'\d`]|<<<|"
    + _KEYWORDS
    + rb"|[A-Za-z_]\w{0,30}+[ \t]*+[:(])))"
    rb"|(?P<asp>%)(?=[@=!#$:/{;(\s]|[A-Za-z])"
    rb"|(?P<jsp>jsp:(?:root|scriptlet|declaration|expression|directive\.[a-z]+)(?=[\s>/]))"
    rb"|(?P<page>(?i:!doctype\s++html|html|hta:application)(?=[\s>/]))"
    rb"|(?P<script>(?i:script)(?=[\s>/]))"
    rb")"
)
_HALT: Final = b"__HALT_COMPILER();"  # all that a PHP archive needs: what is before it may be anything

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
_COMMENT_ENDS: Final = ((b"/*", b"*/"), (b"#", b"\n"), (b"//", b"\n"))
_COMMENTS_MOST: Final = 64
# An expression that calls something, or runs a command, to its end. Bytes from 0x80 on are letters to PHP.
_CAST: Final = (
    rb"(?:\(\s*+(?:int(?:eger)?|bool(?:ean)?|float|double|real|string|binary|array|object)\s*+\)|[@!~+\-(]|\s|(?!))"
)
_CODE: Final = re.compile(
    rb"(?:"
    # a command anywhere in an expression, and a text that continues in the next lines
    rb"[\t\r\n\x20-\x3b\x3d-\x5f\x61-\x7e]{0,60}?`[\x20-\x5f\x61-\x7e]{2,200}+`[\s)}\]\"']*+(?:;|\?>|[,.:?&|])"
    rb"|[\t\r\n\x20-\x3b\x3d-\x7e]{0,60}?<<<[ \t]*+[\"']?[A-Za-z_]\w{0,60}+[\"']?\r?\n"
    rb"|"
    + _CAST
    + rb"{1,16}+(?:include|require|eval|print|exit|die|clone|new)\b[\t\r\n\x20-\x3b\x3d-\x7e]{2,200}?(?:;|\?>)"
    rb"|"
    rb"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f<]{0,200}?\$(?:_(?:GET|POST|REQUEST|COOKIE|SERVER|FILES|ENV)|GLOBALS)\b"
    rb"|(?:echo|print|return|include|require|eval|exit|die)\b[\t\r\n\x20-\x3b\x3d-\x7e]{2,200}?(?:;|\?>)"
    rb"|[@!(\\]{0,3}+(?:new\s)?[\$\w\\]{2,64}+\s*+(?:\(|(?:->|::|\[|=)[^;()<]{1,64}\()"
    rb"[\t\r\n\x20-\x3b\x3d-\x7e]{0,200}?\)\s*+(?:;|\?>|\)|\()"
    rb"|[@(!\"'\[~][\t\r\n\x20-\x3b\x3d-\x7e\x80-\xff]{4,200}?\)[\s}\]\"']*+(?:;|\?>)"
    rb")"
)
# What else statements begin with, and a call in them: bytes from 0x80 on are let in where a variable begins them.
_STATEMENT: Final = re.compile(
    rb"(?:(?P<variable>\$[\w{$\x80-\xff])"
    # Samples of pictures run from letter to letter: behind a sign, a name that is called must follow soon.
    rb"|(?P<sign>(?:[;{@+\-~!(\[\"'\d]|[A-Za-z_]\w{0,30}+[ \t]*+:(?!:))"
    rb"[\t\r\n\x20-\x7e]{0,60}?[A-Za-z_]\w{2,40}+(?:['\"]?\](?:\[\d{1,3}\])?)?[ \t]?\()"
    rb"|" + _KEYWORDS + rb")"
)
_STRING: Final = re.compile(rb"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\$`]++|\\.)*+\"", re.DOTALL)
_STATEMENTS_END: Final = re.compile(rb"\?>|[^\t\r\n\x20-\x7e]")
_STATEMENTS_END_WITH_NAMES: Final = re.compile(rb"\?>|[^\t\r\n\x20-\x7e\x80-\xff]")
_CALL_OPENS: Final = re.compile(
    rb"[\w\]})'\"\x80-\xff][ \t\r\n]*+\(|`[^`]{2}|\b(?:include|require)(?:_once)?\b[ \t]*+[$'\"(]"
)
_CALL_CLOSES: Final = re.compile(rb"[)`'\"\w\]][ \t\r\n]*+(?:[;(}]|\Z)")
# A name that is given something and called: no data of base 85 has that behind a mark.
_SET_AND_CALLED: Final = re.compile(
    rb"\$([\w\x80-\xff]{1,64}+)[ \t]*+=(?!=)[\t\r\n\x20-\x7e\x80-\xff]{1,100}?"
    rb"\$\1[ \t]*+(?:\[[^\]]{0,32}\][ \t]*+)?\("
)
_STATEMENTS_BYTES: Final = 512
_SIGN_BYTES: Final = 300
_SERVER_PAGE: Final = re.compile(
    rb"@\s*+(?:page|language|import|include|taglib|webhandler|webservice|control|master)\b"
    rb"|[=!]?\s*+(?:eval|execute|executeglobal|response\s*\.|request\s*[.(]|server\s*\.|session\s*[.(]|runtime\s*\."
    rb"|out\s*\.\s*print|new\s+java|dim\s+\w|set\s+\w+\s*=|string\s+\w+\s*=|createobject)",
    re.IGNORECASE,
)
# All of a server page that is to its end, without another one in it.
_SERVER_CODE: Final = re.compile(rb"(?:[\t\r\n\x20-\x3b\x3d-\x7e]|<(?!%)){2,4000}?%>")
# What a script does that is worth hiding. Base-85 data in a PDF looks like code, but for these words.
_TELLING: Final = re.compile(
    rb"\A" + _CAST + rb"*+(?:`|<<<)|\$_(?:GET|POST|REQUEST|COOKIE|SERVER|FILES|ENV)\b|\$GLOBALS\b"
    rb"|\b(?:eval|assert|system|exec|shell_exec|passthru|popen|proc_open|include|include_once|require|require_once"
    rb"|phpinfo|file_put_contents|file_get_contents|base64_decode|create_function|call_user_func|readfile|fopen"
    rb"|echo|print|unlink|preg_replace|gzinflate|str_rot13)\b|\b(?:exit|die)[ \t]*+\([ \t]*+`",
    re.IGNORECASE,
)
_LIVE: Final = re.compile(rb"<(?i:script|hta:application)[\s>/]")
_CODE_BYTES: Final = 700
LOOK_AHEAD: Final = 4096  # bytes behind a mark that decide what it is
LONGEST_TAIL: Final = 64 * 1024  # a comment that is longer than all of them hides something

# Short marks that no code follows: one in 256 KiB by chance. Only a file made to keep the search busy has this many.
_MARKS_MOST: Final = 100_000

PHP_WORDS: Final = "a PHP script"
PAGE_WORDS: Final = "a web page"


class ActiveContentFinder:
    """The search of one file. `text_like`: the file may hold text that looks like code, as PDFs do; pages must run."""

    def __init__(self, *, text_like: bool) -> None:
        self._text_like = text_like
        self._marks_left = _MARKS_MOST
        self._next_live = -1  # where in the window the next element that runs is, if it is known
        self._comment_ends: dict[bytes, tuple[int, int]] = {}  # from where each was searched, and where it is

    def find(self, window: bytes) -> Iterator[tuple[int, str]]:
        """Yield the place of each script or page that begins in `window`, and words that follow "the file is also"."""
        yield from ((at, PHP_WORDS) for at in find_all(window, _HALT))
        self._next_live = -1
        self._comment_ends = {}
        for mark in _MARKS.finditer(window):
            if words := self._words_of(mark, window):
                yield mark.start(), words

    def _words_of(self, mark: re.Match[bytes], window: bytes) -> str:
        kind, after = mark.lastgroup, mark.end()
        if kind == "php":
            return PHP_WORDS
        if kind == "page":
            return PAGE_WORDS if not self._text_like or self._runs(window, mark.start()) else ""
        if kind == "script" and not self._text_like:
            return PAGE_WORDS
        if kind in {"asp", "jsp"} and not self._text_like:
            code = None if kind == "jsp" else _SERVER_CODE.match(window, after)
            is_code = code is not None and may_be_server_code(code[0])
            is_page = kind == "jsp" or is_code or _SERVER_PAGE.match(window, after)
            return "a server page" if is_page else self._counted()
        if kind == "short":
            return self._short_words(window, after)
        return self._counted()

    def _short_words(self, window: bytes, after: int) -> str:
        at = self._behind_comments(window, after)
        if at < 0:
            return PHP_WORDS
        code = _CODE.match(window, at, at + _CODE_BYTES)
        found = (code[0] if code else b"") + _calling_statements(window, at)
        tells = not self._text_like or _TELLING.search(found) or _SET_AND_CALLED.search(found[:_SIGN_BYTES])
        is_echo = window.startswith(b"=", after - 1)
        if found and tells and may_be_php_code(window[at : at + LOOK_AHEAD], is_echo=is_echo):
            return PHP_WORDS
        return self._counted()

    def _counted(self) -> str:
        self._marks_left -= 1
        return "" if self._marks_left >= 0 else f"full of marks of scripts, more than {_MARKS_MOST}"

    def _behind_comments(self, window: bytes, at: int) -> int:
        """Return where code begins behind spaces and comments; -1 behind a comment that does not end as far as is seen.

        By chance, a comment that opens right behind a mark ends long before that.
        """
        for _ in range(_COMMENTS_MOST):
            space = _SPACE.match(window, at)
            at = space.end() if space else at
            opens, closes = next((both for both in _COMMENT_ENDS if window.startswith(both[0], at)), (b"", b""))
            if not opens:
                return at
            if (end := self._next_end(window, closes, at + len(opens))) < 0:
                return -1 if closes == b"*/" and len(window) - at > LONGEST_TAIL else len(window)
            at = end + len(closes)
        return at

    def _next_end(self, window: bytes, closes: bytes, at: int) -> int:
        """Return where the next end of a comment is. Each part of a window is searched once."""
        begin, end = self._comment_ends.get(closes, (0, -1))
        if not begin <= at <= end and not (end < 0 < begin <= at):
            begin, end = at, window.find(closes, at)
            self._comment_ends[closes] = (begin, end)
        return end

    def _runs(self, page: bytes, at: int) -> bool:
        if self._next_live < at:
            live = _LIVE.search(page, at)
            self._next_live = live.start() if live else len(page)
        return self._next_live < min(at + LOOK_AHEAD, len(page))


def _calling_statements(window: bytes, at: int) -> bytes:
    """Return the statements at a place of `window`, without strings, if one calls, runs or includes something."""
    begins = _STATEMENT.match(window, at)
    if begins is None:
        return b""
    statements = _STRING.sub(b"''", window[at : at + (_SIGN_BYTES if begins["sign"] else _STATEMENTS_BYTES)])
    end = (_STATEMENTS_END_WITH_NAMES if begins["variable"] else _STATEMENTS_END).search(statements)
    is_closed = end is not None and end[0] == b"?>"
    statements = statements[: end.start()] if end else statements
    opens = _CALL_OPENS.search(statements)
    closes = _CALL_CLOSES.search(statements, opens.end()) if opens else None
    if closes is None or (closes.end() == len(statements) and closes[0][-1:] not in b";(}" and not is_closed):
        return b""
    return statements
