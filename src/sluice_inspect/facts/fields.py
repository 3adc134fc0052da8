"""What the instructions of a document's fields start, as Word and RTF write them."""

import re
from typing import Final

_DDE: Final = re.compile(r"\bDDE(?:AUTO)?\b", re.IGNORECASE)
# A field that is the characters of these codes; within another field, they are a part of its instruction.
_CODES: Final = re.compile(r"\bQUOTE((?:\s+(?:0x[0-9a-f]{1,4}|[0-9]{1,5}))+)", re.IGNORECASE)
_HEXADECIMAL: Final = "0x"


def starts_dde(instructions: str) -> bool:
    """Return whether an instruction starts another program by DDE."""
    return _DDE.search(instructions) is not None or spells_dde(instructions)


def spells_dde(text: str) -> bool:
    """Return whether a field `QUOTE` anywhere in a text spells DDE by the codes of its characters."""
    return any(_DDE.search("".join(map(_character, found[1].split()))) for found in _CODES.finditer(text))


def _character(code: str) -> str:
    is_hexadecimal = code[:2].lower() == _HEXADECIMAL
    return chr(int(code, base=0 if is_hexadecimal else 10))
