"""A sentence in words: sizes, times, lists and names of formats as the language writes them.

Babel knows how each language does that. It is loaded by the first sentence, not when the service starts.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from sluice.messages.catalogue import PARAMETERS, Catalogue, ParameterType, catalogue_of, plain_key
from sluice.messages.locales import DEFAULT_LOCALE, LOCALES
from sluice.messages.patterns import Pattern, Plural, Slot, names_in, parse

if TYPE_CHECKING:
    from babel import Locale

LAST_RESORT: Final = "rejected.plain"

# International English for `en`: "PDF, JPEG or PNG" without a comma before the "or".
_BABEL_LOCALES: Final = {"en": "en_GB", "zh-Hans": "zh_Hans"}
_WRITTEN_WITHOUT_SPACES: Final = frozenset({"ja", "zh-Hans"})
_NUMBER_MAX: Final = 2**63
_LIST_MAX: Final = 50
_TEXT_MAX: Final = 40  # characters of one name
SENTENCE_MAX: Final = 300  # characters of a sentence of an external check
_RIGHT_TO_LEFT: Final = frozenset({"R", "AL", "AN"})
_FIRST_STRONG_ISOLATE, _POP_ISOLATE = "\u2068", "\u2069"

_SIZE_STEP: Final = 1024
_SIZE_UNITS: Final = ("byte", "kilobyte", "megabyte", "gigabyte", "terabyte")
_SIZE_DIGITS: Final = (1, 2)
_TIME_UNITS: Final = (("hour", 3600), ("minute", 60), ("second", 1))
# A wait is given in the largest unit that it has at least this often, rounded up: unit, its seconds, least seconds.
_WAIT_UNITS: Final[tuple[tuple[Literal["day", "hour", "minute", "second"], int, int], ...]] = (
    ("day", 86_400, 129_600),
    ("hour", 3600, 7200),
    ("minute", 60, 120),
    ("second", 1, 0),
)


def render(key: str, params: Mapping[str, Any], locale: str) -> str:
    """Return the sentence `key` in words.

    An unknown locale is English. An unknown key, or one whose parameters are missing or of another type, gets the
    sentence of its reason that needs none: stored reports outlive the catalogue that they were written with.
    """
    known = locale if locale in LOCALES else DEFAULT_LOCALE
    texts = catalogue_of(known)
    for candidate in (key, plain_key(key)):
        message = texts.messages.get(candidate)
        if message is None:
            continue
        try:
            return _Values(params, texts, babel_locale(known)).fill(parse(message))
        except (KeyError, TypeError, ValueError):
            continue
    return texts.messages[LAST_RESORT]


def render_page(key: str, params: Mapping[str, Any], locale: str) -> str:
    """Return words of the upload page. Its keys and parameters come from the code: what is wrong with them raises."""
    texts = catalogue_of(locale)
    return _Values(params, texts, babel_locale(locale)).fill(parse(texts.page[key]))


def safe_text(text: str, length: int = _TEXT_MAX) -> str:
    """Return a text of a stranger as it may stand in a sentence.

    Control, bidirectional and other invisible characters are left out, and what is written from right to left is
    isolated, so that nothing changes how the rest of the sentence reads.
    """
    visible = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * length])
    plain = " ".join(visible.split())
    if len(plain) > length:
        plain = plain[: length - 1] + "…"
    if any(unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT for letter in plain):
        return f"{_FIRST_STRONG_ISOLATE}{plain}{_POP_ISOLATE}"
    return plain


@cache
def babel_locale(locale: str) -> "Locale":
    """Return Babel's locale for the words of a catalogue."""
    from babel import Locale  # noqa: PLC0415  (the service starts without it, and no accepted file needs it)

    return Locale.parse(_BABEL_LOCALES.get(locale, locale))


def _join(pattern: Pattern, shown: Mapping[str, str], numbers: Mapping[str, Any], locale: "Locale") -> str:
    """Return a pattern in words: `shown` are the words for its parameters, `numbers` choose its plural forms."""
    words: list[str] = []
    for part in pattern:
        if isinstance(part, Slot):
            words.append(shown[part.name])
        elif isinstance(part, Plural):
            category = locale.plural_form(numbers[part.name])
            words.append(_join(part.words.get(category, part.words["other"]), shown, numbers, locale))
        else:
            words.append(part)
    return "".join(words)


@dataclass(frozen=True, slots=True)
class _Values:
    """The parameters of one sentence. `KeyError`, `TypeError` and `ValueError` say that they do not fit it."""

    params: Mapping[str, Any]
    texts: Catalogue
    locale: "Locale"

    def fill(self, pattern: Pattern) -> str:
        names = names_in(pattern)
        # Sizes are put into words together, so that they can be compared.
        sizes = [name for name in sorted(names) if PARAMETERS[name] is ParameterType.BYTES]
        texts = self._sizes({name: math.ceil(self._number(name)) for name in sizes})
        texts |= {name: self._one(name) for name in names if name not in texts}
        return _join(pattern, texts, self.params, self.locale)

    def _number(self, name: str) -> int | float:
        value = self.params[name]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name}: expected a number")
        if not 0 <= value <= _NUMBER_MAX:  # False for NaN
            raise ValueError(f"{name}: expected a number that is not negative")
        return value

    def _one(self, name: str) -> str:
        match PARAMETERS[name]:
            case ParameterType.COUNT:
                return self._decimal(math.floor(self._number(name)))
            case ParameterType.SECONDS:
                return self._duration(name)
            case ParameterType.WAIT:
                return self._wait(self._number(name))
            case ParameterType.EXTENSIONS:
                return self._choice([_extension(each) for each in self._texts(name)])
            case ParameterType.FORMATS:
                return self._choice([self._format(each) for each in self._texts(name)])
            case ParameterType.SENTENCE | ParameterType.NAME:
                return safe_text(self._text(self.params[name]), SENTENCE_MAX)
            case ParameterType.EXTENSION:
                return _extension(self._text(self.params[name]))
            case _:
                return self._format(self._text(self.params[name]))

    def _sizes(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """Return sizes in words: with as few digits as tell different sizes apart, at worst as bytes."""
        for digits in _SIZE_DIGITS:
            rounded = {name: _rounded(name, size, digits) for name, size in sizes.items()}
            if len(set(rounded.values())) == len(set(sizes.values())):
                return {name: self._measured(number, unit) for name, (number, unit) in rounded.items()}
        return {name: self._measured(size, "byte") for name, size in sizes.items()}

    def _measured(self, number: Decimal | int, unit: str) -> str:
        """Return a number of a unit: `10.5 MB`."""
        return _join(parse(self.texts.units[unit]), {"count": self._decimal(number)}, {"count": number}, self.locale)

    def _decimal(self, number: Decimal | int) -> str:
        from babel.numbers import format_decimal  # noqa: PLC0415  (as in `babel_locale`)

        return format_decimal(number, locale=self.locale)

    def _duration(self, name: str) -> str:
        # What was measured is rounded up and a limit down: a recording of 10 min 0.2 s is longer than 10 min.
        seconds = math.floor(self._number(name)) if _is_most(name) else math.ceil(self._number(name))
        parts: list[str] = []
        for unit, length in _TIME_UNITS:
            count, seconds = divmod(seconds, length)
            if count or (unit == "second" and not parts):
                parts.append(self._measured(count, unit))
        return ("" if self.texts.locale in _WRITTEN_WITHOUT_SPACES else " ").join(parts)

    def _wait(self, seconds: float) -> str:
        from babel.dates import format_timedelta  # noqa: PLC0415  (as in `babel_locale`)

        unit, length = next((unit, length) for unit, length, least in _WAIT_UNITS if seconds >= least)
        whole = max(1, math.ceil(seconds / length))
        # `threshold` keeps it from choosing a larger unit.
        return format_timedelta(
            whole * length, granularity=unit, threshold=math.inf, add_direction=True, locale=self.locale
        )

    def _choice(self, texts: Sequence[str]) -> str:
        from babel.lists import format_list  # noqa: PLC0415  (as in `babel_locale`)

        return format_list(list(dict.fromkeys(texts)), style="or", locale=self.locale)

    def _format(self, name: str) -> str:
        return self.texts.formats.get(name) or safe_text(name)

    def _texts(self, name: str) -> list[str]:
        values = self.params[name]
        if not isinstance(values, list | tuple) or not 0 < len(values) <= _LIST_MAX:
            raise TypeError(f"{name}: expected a list of texts")
        return [self._text(value) for value in values]

    def _text(self, value: object) -> str:
        if not isinstance(value, str) or not safe_text(value):
            raise TypeError("expected a text")
        return value


def _extension(extension: str) -> str:
    return safe_text(extension.upper() if extension.isascii() else extension)


def _is_most(name: str) -> bool:
    return name.startswith(("max_", "free_"))


def _rounded(name: str, size: int, digits: int) -> tuple[Decimal, str]:
    """Return a size in the largest unit that it fills. A limit is never rounded to more than is allowed."""
    rounding = ROUND_FLOOR if _is_most(name) else ROUND_CEILING if name.startswith("min_") else ROUND_HALF_EVEN
    number, step = Decimal(size), Decimal(1).scaleb(-digits)
    for unit in _SIZE_UNITS[:-1]:
        rounded = number.quantize(Decimal(1) if unit == "byte" else step, rounding)
        if rounded < _SIZE_STEP:
            return rounded.normalize(), unit
        number /= _SIZE_STEP
    return number.quantize(step, rounding).normalize(), _SIZE_UNITS[-1]
