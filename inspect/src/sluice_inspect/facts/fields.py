"""What the fields and formulas of a document start or load, whatever format they are written in."""

import re
from typing import Final

_DDE: Final = re.compile(r"\bDDE(?:AUTO)?\b", re.IGNORECASE)
# A field that is the characters of these codes; within another field, they are a part of its instruction.
_CODES: Final = re.compile(r"\bQUOTE((?:\s+(?:0x[0-9a-f]{1,4}|[0-9]{1,5}))+)", re.IGNORECASE)
_HEXADECIMAL: Final = "0x"

# Without one of these, a formula neither calls nor names anything outside.
_TELLING: Final = re.compile(r"['|!#]|WEBSERVICE|IMAGE|FILTERXML|INDIRECT|DDE", re.IGNORECASE)
# A text; the names of a sheet, document or program, with what says that they are one.
_QUOTED: Final = re.compile(r"\"[^\"]*+\"|(\|\s{0,9})?((?:'[^']*+'|(?!))++)\s{0,9}(#|!(?!!))?")
_LOADING_FUNCTION: Final = re.compile(r"(?<![\w])(?:_xlfn\.)?(?:WEBSERVICE|IMAGE|FILTERXML)\s*\(", re.IGNORECASE)
_LOADING_REFERENCE: Final = re.compile(
    r"\bINDIRECT\s{0,9}\(\s{0,9}\"\s{0,9}'?\s{0,9}(?:[a-z][a-z0-9+.-]{1,20}:[\\/]|\\\\)", re.IGNORECASE
)
# The names of sheets have none of these.
_DOCUMENT: Final = re.compile(r"[\\/]|\[(?!\d+\])|\.xl[a-z]{1,2}'\Z", re.IGNORECASE)
_BARE_DOCUMENT: Final = re.compile(
    r"\[(?!-?\d+\])[^\[\]\"'.#@][^\[\]\"']*+\][\w.$]++!(?!!)|\w\.xl[a-z]{1,2}!(?!!)"
    r"|\[\s{0,9}(?:[a-z][a-z0-9+.-]{0,20}:)?[\\/][^\[\]\"'#]*+#"
    r"|\[[^\[\]\"'#]*+(?:(?<=\.\w{3})|(?<=\.\w{4}))#",
    re.IGNORECASE,
)
_DDE_FORMULA: Final = re.compile(
    r"[\w.']\s{0,9}\|\s{0,9}(?:(?:'[^']*+'|(?!))++|[^\s'\"|!(){},;=<>&*^+]{1,255}+)\s{0,9}!|(?<![\w])DDE\s{0,9}\(",
    re.IGNORECASE,
)

# A scheme of the network, or a server by its name; drive letters and `file:///C:/` are the reader's own computer.
_REMOTE: Final = re.compile(
    r"\s*(?:(?!file:)[a-z][a-z0-9+.-]+:|[\\/]{2}|file:[\\/]{2}(?![\\/])|file:[\\/]{4})", re.IGNORECASE
)


def is_remote(address: str) -> bool:
    """Return whether an address leads to another computer."""
    return _REMOTE.match(address) is not None


def starts_dde(instructions: str) -> bool:
    """Return whether an instruction starts another program by DDE."""
    return _DDE.search(instructions) is not None or spells_dde(instructions)


def spells_dde(text: str) -> bool:
    """Return whether a field `QUOTE` anywhere in a text spells DDE by the codes of its characters."""
    return any(_DDE.search("".join(map(_character, found[1].split()))) for found in _CODES.finditer(text))


def _character(code: str) -> str:
    is_hexadecimal = code[:2].lower() == _HEXADECIMAL
    return chr(int(code, base=0 if is_hexadecimal else 10))


def flags_of_formula(formula: str) -> set[str]:
    """Return `dde` and `link.external` if a formula asks another program for data, or loads or refers to a document."""
    if not _TELLING.search(formula):
        return set()
    flags = {"link.external"} if _LOADING_REFERENCE.search(formula) else set()

    def without_text(quoted: re.Match[str]) -> str:  # what a text says is no call
        is_topic, name, mark = quoted[1], quoted[2], quoted[3]
        if not is_topic and (mark == "#" or (mark and _DOCUMENT.search(name))):
            flags.add("link.external")
        return quoted[0] if name else '""'

    bare = _QUOTED.sub(without_text, formula)
    if _LOADING_FUNCTION.search(bare) or _BARE_DOCUMENT.search(bare):
        flags.add("link.external")
    if _DDE_FORMULA.search(bare):
        flags.add("dde")
    return flags
