"""Jinja templates: the environment, and the filters by which values are shown to people."""

import unicodedata
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from sluice.console.assets import asset_path
from sluice.kit.clock import utc_now
from sluice_inspect.catalogue import REMOVED

Templates = Environment
_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_STEP: Final = 1024
# What a check does with a file that fails it: the word of the API, and that of people.
MODE_WORDS: Final = {"enforce": "Reject", "quarantine": "Quarantine", "report": "Report only", "off": "Off"}
_PERIODS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_AGO: Final = ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h"), (86_400 * 60, 86_400, "d"))


def make_environment() -> Environment:
    """Return the environment of all templates. What they show is escaped."""
    environment = Environment(
        loader=PackageLoader("sluice.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": show_size,
        "count": show_count,
        "moment": show_moment,
        "until": show_until,
        "filename": show_filename,
        "words": show_words,
        "removed": show_removed,
        "percent": show_percent,
        "day": show_day,
        "value": show_value,
        "mode": show_mode,
        "per": show_period,
        "name": show_filename,
        "plain": show_plain,
    }
    environment.globals |= {"asset": asset_path, "query": query, "problem_of": problem_of}
    return environment


def show_size(size: int) -> str:
    """Return bytes as people read them: `1.4 MB`, in units of 1,024."""
    value, unit = float(size), _UNITS[0]
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            break
        value /= _STEP
    return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"


def show_count(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"


def show_percent(part: int, whole: int) -> str:
    """Return a share; `0 %` only if it is nothing at all."""
    if not part or not whole:
        return "0 %"
    share = 100 * part / whole
    return f"{share:.0f} %" if share >= 1 else "< 1 %"


def show_day(day: date) -> str:
    """Return a day such as `22 Nov`."""
    return f"{day.day} {day:%b}"


@pass_context
def show_moment(context: Context, moment: datetime | None, absent: str = "never") -> Markup | str:
    """Return how long ago a moment is, with the moment itself in the title; the other way round on request."""
    if moment is None:
        return absent
    return _time(context, moment, _ago(utc_now() - moment, moment))


@pass_context
def show_until(context: Context, moment: datetime | None, absent: str = "never") -> Markup | str:
    """Return how far a moment of the future is, with the moment itself in the title; the other way round on request."""
    if moment is None:
        return absent
    left = moment - utc_now()
    seconds = left.total_seconds()
    return _time(context, moment, "over" if seconds <= 0 else f"in {_span(seconds)}")


def _ago(age: Any, moment: datetime) -> str:
    seconds = age.total_seconds()
    if seconds < 1:
        return "now"
    if seconds >= _AGO[-1][0]:
        return f"{moment.day} {moment:%b %Y}"
    return f"{_span(seconds)} ago"


def _span(seconds: float) -> str:
    for below, unit_seconds, unit in _AGO:
        if seconds < below:
            return f"{int(seconds // unit_seconds)} {unit}"
    return f"{int(seconds // 86_400)} d"


def _time(context: Context, moment: datetime, words: str) -> Markup:
    at = moment.astimezone(UTC)
    exact = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    title, shown = (words, exact) if context.get("shows_moments") else (exact, words)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(timespec="seconds"), title, shown)


def show_filename(text: str) -> Markup:
    """Return a name of a stranger: by itself in its own direction, with each invisible sign made visible.

    A sign that turns the direction would show `gpj.exe` as `exe.jpg`.
    """
    shown = Markup("").join(
        Markup('<span class="sign">U+{:04X}</span>').format(ord(letter)) if _is_hidden(letter) else escape(letter)
        for letter in text
    )
    return Markup("<bdi>{}</bdi>").format(shown)


def show_plain(text: str) -> Markup:
    """Return a text for titles and attributes, which hold no elements: each invisible sign is named in its place."""
    shown = "".join(f"U+{ord(letter):04X}" if _is_hidden(letter) else letter for letter in escape(text))
    return Markup(shown)  # noqa: S704  (escaped above)


def _is_hidden(letter: str) -> bool:
    # The joiners belong to the spelling of Persian and of Indic scripts, and to emoji.
    return unicodedata.category(letter) in {"Cf", "Cc", "Zl", "Zp"} and letter not in "\u200c\u200d"


def show_words(code: str) -> str:
    """Return a code as words: `blank_document` as `Blank document`."""
    words = code.replace("_", " ").replace(".", " › ")
    return words[:1].upper() + words[1:]


def show_removed(code: str) -> str:
    """Return in words what sanitising took out of a file."""
    words = REMOVED.get(code, code)
    return words[:1].upper() + words[1:]


def show_mode(mode: str) -> Markup:
    """Return the mode of a check as a badge, with the word of the API in its title."""
    level = {"enforce": "bad", "quarantine": "warn"}.get(mode, "")
    return Markup('<span class="badge {}" title="{}">{}</span>').format(level, mode, MODE_WORDS[mode])


def show_period(seconds: int) -> str:
    """Return a period in the largest unit that divides it: `5 min`."""
    each, unit = next((each, unit) for each, unit in _PERIODS if seconds % each == 0)
    return f"{seconds // each:,} {unit}"


def show_value(value: Any) -> str:
    """Return a measured value of a report as people read it."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return show_count(value)
        case dict():
            return ", ".join(f"{name.replace('_', ' ')}: {show_value(inner)}" for name, inner in value.items())
        case list() | tuple():
            return ", ".join(show_value(inner) for inner in value)
    return str(value)


def query(pairs: Iterable[tuple[str, object]] | Mapping[str, object], **more: object) -> str:
    """Return a query string of the values that are not None and not empty."""
    given = dict(pairs) | more
    kept = {name: value for name, value in given.items() if value not in (None, "")}
    return f"?{urlencode(kept)}" if kept else ""


def problem_of(problems: Iterable[str], field: str) -> str:
    """Return the first problem of a field without its name; empty if it has none."""
    return next((each.partition(": ")[2] for each in problems if each.startswith(f"{field}: ")), "")
