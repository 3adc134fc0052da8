"""Fields of a mail that Python's parser would read in the square of their parameters."""

import re
from typing import Final

_WITH_PARAMETERS: Final = re.compile(
    rb"(?:\A|(?<=[\r\n]))content-(?:type|disposition)[ \t]*:(?:[^\r\n]|\r?\n[ \t]|\r[ \t]|(?!))*+", re.IGNORECASE
)
_PARAMETERS_MOST: Final = 200
"""Of one field. Names of files that are written in pieces have some tens."""


def has_many_parameters(mail: bytes) -> bool:
    """Return whether a field anywhere in a mail has more parameters than are read."""
    return any(field[0].count(b";") > _PARAMETERS_MOST for field in _WITH_PARAMETERS.finditer(mail))
