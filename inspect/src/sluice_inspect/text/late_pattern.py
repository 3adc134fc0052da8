"""Regular expressions that take milliseconds to compile, and that few files need."""

import re
from functools import cached_property
from typing import AnyStr, ClassVar, Final, Generic


class LatePattern(Generic[AnyStr]):
    """A regular expression that is compiled when it is first used, or by `compile_all`."""

    _all: ClassVar[list["LatePattern[str] | LatePattern[bytes]"]] = []

    def __init__(self, text: AnyStr, flags: int = 0) -> None:
        self._text: Final[AnyStr] = text
        self._flags: Final = flags
        self._all.append(self)

    @cached_property
    def compiled(self) -> re.Pattern[AnyStr]:
        """The compiled expression."""
        return re.compile(self._text, self._flags)

    @classmethod
    def compile_all(cls) -> None:
        """Compile the expressions of all modules that are loaded."""
        for each in cls._all:
            _ = each.compiled
