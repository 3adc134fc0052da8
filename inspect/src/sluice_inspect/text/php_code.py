"""Whether bytes behind a short tag of PHP may be its code, by the order of its tokens.

PHP runs nothing of a file that it cannot parse. In pixels of pictures that are not compressed, letters, digits and
signs follow each other in an order that no code has: a number before a name, an operator before an operator.
"""

import re
from collections.abc import Callable
from typing import Final, Literal

_NAME: Final = rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*+"
# PHP before version 8 skips other control bytes. Each pattern is one pass, also over what does not end.
_TOKEN: Final = re.compile(
    rb"(?P<skipped>[\x00-\x20\x7f]++|/\*(?:[^*]++|\*(?!/)|(?!))*+(?:\*/)?|(?:\#(?!\[)|//)(?:[^\r\n?]++|\?(?!>)|(?!))*+)"
    rb"|(?P<end>\?>|(?i:__halt_compiler))"
    rb"|(?P<text>[bB]?<<<[\ \t]*+[\"']?" + _NAME + rb"[\"']?\r?\n)"
    rb"|(?P<string>[bB]?'(?:[^'\\]++|\\.)*+')"
    rb"|(?P<double>[bB]?\"(?:[^\"\\{$]++|\\.|\$(?!\{)|\{(?!\$)|(?!))*+(?:\"|(?=\{\$|\$\{)))"
    rb"|(?P<command>`(?:[^`\\{$]++|\\.|\$(?!\{)|\{(?!\$)|(?!))*+(?:`|(?=\{\$|\$\{)))"
    rb"|(?P<unending>[\"'`])"
    rb"|(?P<variable>\$(?:" + _NAME + rb")?+)"
    rb"|(?P<name>\\?" + _NAME + rb"(?:\\" + _NAME + rb")*+)"
    rb"|(?P<number>0[xXbBoO][\da-fA-F_]++|(?:\d[\d_]*+(?:\.[\d_]*+)?|\.\d[\d_]*+)(?:[eE][+-]?\d++)?)"
    rb"|(?P<prefix>\((?i:[\ \t]*+(?:int(?:eger)?|bool(?:ean)?|float|double|real|string|binary|array|object|unset)"
    rb"[\ \t]*+)\)|[@~]|!(?!=)|\.\.\.|\#(?=\[))"
    rb"|(?P<member>\??->|::|\\)"
    rb"|(?P<step>\+\+|--)"
    rb"|(?P<assignment>(?:[-+/%&|^]|\.|\*\*?|<<|>>|\?\?)=|=(?![=>]))"
    rb"|(?P<either>[+-]|&(?!&))"
    rb"|(?P<operator>=>|===?|!==?|<>|<=>?|>=|<<|>>|&&|\|\|?|\*\*?|\?\??|[/%.<>^:])"
    rb"|(?P<comma>,)|(?P<semicolon>;)|(?P<opening>[(\[{])|(?P<closing>[)\]}])",
    re.DOTALL,
)
# The first line of a command, as shells divide it: nothing runs where a sign has no word behind it.
_WORD: Final = rb"(?:[^\s;&|<>()'\"\\]++|\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\"|['\"\\]|(?!))++"
_WORDS: Final = (
    rb"(?:(?<![^\s;&|()])\#[^\n]*+|\d*+(?:<<[<-]?|<>|>>|>\||[<>])&?[ \t]*+(?:\(|"
    + _WORD
    + rb")|"
    + _WORD
    + rb"|[ \t\r()]++|(?!))++"
)
_COMMAND: Final = re.compile(
    rb"\s*+(?:\#[^\n]*+\n\s*+|(?!))*+"
    + _WORDS
    + rb"(?:(?:&&?|\|[|&]?|;)"
    + _WORDS
    + rb"|(?!))*+[;&]?[ \t]*+(?:\n|\#|\Z)"
)
# A name that a program may have, a path or what is replaced by others.
_PROGRAM: Final = re.compile(
    rb"(?:\A|[\s;&|({!@`])(?:(?:\d?[a-z]{2}|[A-Za-z]{3})[\w.+-]*+|w)(?=[\s;&|<>),`]|\Z)"
    rb"|[A-Za-z.][ \t]|/[\w?*.\[$-]|\$|\*|%\w"
)
_QUOTING: Final = re.compile(rb"[\\'\"^]")
_SHORT_COMMAND: Final = 24  # bytes, which may be all in capitals and without a space
_OF_A_COMMAND: Final = re.compile(rb"[a-z]{2}|[\s$]")
_CASE: Final = re.compile(rb"\bcase\b.*\besac\b", re.DOTALL)  # only here, two semicolons follow each other
_HEADED: Final = frozenset(b"if elseif while for foreach switch declare catch".split())  # a statement follows their ")"
_DECLARING: Final = frozenset(
    b"function fn class trait interface enum catch use namespace const static global abstract final public private"
    b" protected var readonly goto declare case".split()
)
_BETWEEN: Final = frozenset(b"and or xor instanceof insteadof as extends implements use".split())
_KEYWORDS: Final = (
    _HEADED
    | _DECLARING
    | _BETWEEN
    | frozenset(
        b"else do try finally return break continue throw echo print include include_once require require_once eval"
        b" exit die new clone yield from match isset unset empty list array default endif endwhile endfor endforeach"
        b" endswitch enddeclare callable".split()
    )
)
_DOING: Final = frozenset(
    b"include include_once require require_once eval print echo exit die new clone return".split()
)
_SHORT_NAME: Final = 4  # of PHP's own functions with shorter names, only `dl` does something, with a text
_ARGUMENTS: Final = frozenset({"string", "double", "command", "text", "variable", "opening", "prefix"})
_GLOBALS: Final = re.compile(rb"\$(?:_(?:GET|POST|REQUEST|COOKIE|SERVER|FILES|ENV)|GLOBALS)\Z")
_OPENING: Final = {b")": b"(", b"]": b"[", b"}": b"{"}

_Place = Literal["begin", "operand", "behind", "any", "member"]  # what may be next
_OPERANDS: Final = frozenset({"string", "double", "command", "number", "variable", "name"})


def may_be_php_code(code: bytes, *, is_echo: bool) -> bool:
    """Return whether a statement that does something may be at the beginning of `code`. `is_echo`: `<?=` is before it.

    Only the order of tokens is judged, to the end of that statement: PHP that is accepted here may still be wrong.
    """
    # Up to version 7, an attribute is a comment.
    readings = (code, code.replace(b"#[", b"//")) if b"#[" in code else (code,)
    return any(_Reader(is_echo=is_echo).read(each) for each in readings)


def _may_be_command(command: bytes) -> bool:
    if _COMMAND.match(command) is None and _CASE.search(command) is None:
        return False
    is_short = len(command) <= _SHORT_COMMAND
    return _PROGRAM.search(_QUOTING.sub(b"", command)) is not None and (is_short or bool(_OF_A_COMMAND.search(command)))


class _Reader:
    """Reads tokens until they are in no order of PHP, or a statement that does something ends."""

    def __init__(self, *, is_echo: bool) -> None:
        self._place: _Place = "operand" if is_echo else "begin"
        self._kind = "keyword" if is_echo else "semicolon"  # of the token before, and the token
        self._word = b""
        self._opened: list[tuple[bytes, _Place]] = []  # what each bracket is, and what may follow when it is closed
        self._conditions = 0  # question marks that wait for a colon
        self._is_list = is_echo
        self._is_first = False  # if a name before is at the beginning of a statement or an argument
        self._may_be_empty = False  # what the bracket before holds
        self._calls_short = False  # if the bracket before opens the arguments of a function with a short name
        self._declares = False
        self._does = False

    def read(self, code: bytes) -> bool:
        at = 0
        while token := _TOKEN.match(code, at):
            kind, word, at = token.lastgroup or "", token[0], token.end()
            if kind == "skipped":
                continue
            if kind == "unending":
                return self._does
            if kind == "end":
                return (
                    self._does
                    and self._place not in {"operand", "member"}
                    and (self._conditions == 0 or self._declares)
                    and all(each == b"{" for each, _ in self._opened)
                )
            if not self._may_be_next(kind, word):
                return False
            # Code in a text or a command is not read, nor are texts of several lines.
            if kind == "text" or (kind in {"double", "command"} and code.startswith((b"{$", b"${"), at)):
                return True
            if kind == "command" and not _may_be_command(word[1:-1]):
                return False
            if kind == "semicolon" and self._does:
                return True
            self._word = word
        return at == len(code) and self._does

    def _may_be_next(self, kind: str, word: bytes) -> bool:
        if self._calls_short:
            self._does, self._calls_short = self._does or kind in _ARGUMENTS, False
        if self._place == "member" and kind not in {"name", "variable"} and word != b"{":
            return False
        if kind in _OPERANDS or kind == "text":
            return self.take_operand(kind, word)
        taken = _TAKES[kind](self, word)
        self._kind = kind
        return taken

    def take_operand(self, kind: str, word: bytes) -> bool:
        name = word.lower()
        if kind == "name" and self._place != "member" and name in _KEYWORDS:
            return self.take_keyword(name)
        if self._place == "behind" and not (self._declares and kind in {"name", "variable"}):
            return False
        self._is_first = self._place == "begin" or self._kind in {"opening", "comma"}
        self._kind = "variable" if self._place == "member" else kind
        self._place = "member" if kind == "variable" and word.endswith(b"$") else "behind"
        has_command = kind in {"command", "string", "double"} and b"`" in word  # a text may be run by what follows
        self._does = self._does or kind == "text" or has_command or _GLOBALS.match(word) is not None
        return True

    def take_keyword(self, name: bytes) -> bool:
        self._declares = self._declares or name in _DECLARING
        if self._place == "behind" and name not in _BETWEEN and not self._declares:
            return False
        if self._place in {"begin", "operand"} and name in _BETWEEN and name != b"use":
            return False
        self._kind = "keyword"
        self._is_list = self._is_list or self._declares or name == b"echo"
        self._does = self._does or name in _DOING
        self._place = "operand" if name in _BETWEEN else "any"
        return True

    def take_prefix(self, word: bytes) -> bool:
        if self._place == "behind":  # a type before "...", a call with a constant that is named like a type
            self._does = self._does or word != b"..."
            return (word[:1] == b"(" and self._kind != "number") or (word == b"..." and self._declares)
        self._declares = self._declares or word == b"#"
        self._place = "operand"
        return True

    def take_member(self, word: bytes) -> bool:
        taken = word == b"\\" or (self._place in {"behind", "any"} and self._kind != "number")
        self._place = "member"
        return taken

    def take_step(self, _word: bytes) -> bool:
        if self._place == "behind":
            return self._kind in {"variable", "closing"}
        self._place = "operand"
        return True

    def take_assignment(self, _word: bytes) -> bool:
        taken = self._place == "behind" and (
            self._kind in {"variable", "closing"} or (self._kind == "name" and self._declares)
        )
        self._place = "operand"
        return taken

    def take_either(self, word: bytes) -> bool:
        is_operator = self._place in {"behind", "any"}
        is_reference = self._kind in {"assignment", "opening", "comma"} or self._word == b"=>"
        self._place = "operand"
        return is_operator or word != b"&" or is_reference

    def take_operator(self, word: bytes) -> bool:
        was, self._place = self._place, "operand"
        is_behind = was in {"behind", "any"}
        if word == b"?":
            self._conditions += 1
            return is_behind or self._declares
        if word == b":":
            waits, self._conditions = self._conditions > 0, max(0, self._conditions - 1)
            self._place = "begin"
            is_label = (self._kind == "name" and self._is_first) or was == "any"
            return (waits and (is_behind or self._word == b"?")) or (is_behind and (is_label or self._declares))
        return is_behind and (word != b"=>" or bool(self._opened) or self._declares)

    def take_comma(self, _word: bytes) -> bool:
        is_in_brackets = bool(self._opened) and self._opened[-1][0] != b"{"
        is_left_out = is_in_brackets and self._kind in {"opening", "comma"}  # in a list that is assigned to
        taken = (self._place in {"behind", "any"} or is_left_out) and (is_in_brackets or self._is_list)
        self._place = "operand"
        return taken

    def take_semicolon(self, _word: bytes) -> bool:
        taken = self._place not in {"operand", "member"} or (self._kind in {"opening", "semicolon"} and self._is_in_for)
        taken = taken and (not self._opened or self._opened[-1][0] == b"{" or self._is_in_for)
        taken = taken and (self._conditions == 0 or self._declares)
        self._place = "operand" if self._is_in_for else "begin"
        self._is_list = self._declares
        return taken

    @property
    def _is_in_for(self) -> bool:
        return bool(self._opened) and self._opened[-1] == (b"(", "any")

    def take_opening(self, word: bytes) -> bool:
        follows = self._place in {"behind", "any"}
        is_headed = self._kind == "keyword" and self._word.lower() in _HEADED
        if self._place == "behind" and self._kind == "number":
            return False
        if word == b"{":
            is_block = self._place in {"begin", "any"}
            taken = is_block or self._place == "member" or self._kind in {"variable", "closing"} or self._declares
            self._opened.append((word, "behind" if self._place == "member" else "any"))
            self._place = "operand" if self._place == "member" else "begin"
            return taken
        is_call = word == b"(" and (self._place == "behind" or self._word == b"}")
        if is_call and self._kind == "name" and len(self._word) < _SHORT_NAME and not self._declares:
            self._calls_short = len(self._word) > 1
        else:
            self._does = self._does or is_call
        self._opened.append((word, "any" if is_headed else "behind"))
        self._may_be_empty = follows or word == b"["
        self._place = "operand"
        return True

    def take_closing(self, word: bytes) -> bool:
        if not self._opened:
            # A block that another pair of tags opened.
            taken, self._place = word == b"}" and self._place in {"begin", "any"}, "any"
            return taken
        opening, self._place, before = *self._opened.pop(), self._place
        is_empty = self._kind == "opening" and (self._may_be_empty or opening == b"{")
        is_complete = before in {"behind", "any", "begin"} or is_empty or self._kind == "comma" or self._word == b"..."
        return opening == _OPENING[word] and (is_complete or (self._kind == "semicolon" and opening == b"("))


_TAKES: Final[dict[str, Callable[[_Reader, bytes], bool]]] = {
    "prefix": _Reader.take_prefix,
    "member": _Reader.take_member,
    "step": _Reader.take_step,
    "assignment": _Reader.take_assignment,
    "either": _Reader.take_either,
    "operator": _Reader.take_operator,
    "comma": _Reader.take_comma,
    "semicolon": _Reader.take_semicolon,
    "opening": _Reader.take_opening,
    "closing": _Reader.take_closing,
}
