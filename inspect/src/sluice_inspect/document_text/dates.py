"""Dates behind a label, such as the one on which a document was issued."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import Final

# The names of months as normalised text without case has them, January first. A name begins with one of them.
_MONTHS: Final[Mapping[str, int]] = {
    name: number
    for language in (
        "jan feb mar apr may jun jul aug sep oct nov dec",  # English, and most of the others by their beginnings
        "jän febr märz - mai juni juli - - okt - dez",
        "janv fév mars avr - juin juil août - - - déc",
        "ene - marzo abr mayo - - ago - - - dic",
        "gen febbr - - mag giu lug - set ott - -",
        "jan fev março - maio - - - - out - dez",
        "- - maart - mei - - - - - - -",
        "sty lut - kwi maj cze lip sie wrz paź lis gru",
        "oca şub - nis - haz tem ağu eyl eki kas ara",
        "січ лют бер кві тра чер лип сер вер жов лис гру",
        "янв фев мар апр мая июн июл авг сен окт ноя дек",
        "led úno bře dub kvě červn červenc srp zář říj list pros",
        "ian - - - - iun iul - - - - -",
        "יונואר פברואר מרץ אפריל מאי יוני יולי אוגוסט ספטמבר אוקטובר נובמבר דצמבר",
        "ינואר - - - - - - - - - - -",
        "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
        "जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    )
    for number, name in enumerate(language.split(), start=1)
    if name != "-"
}
_MONTH: Final = "|".join(sorted(map(re.escape, _MONTHS), key=len, reverse=True))
_LETTERS: Final = r"[^\W\d_]"
_DATE: Final = re.compile(
    rf"(?<!\d)(?:(?P<iso>(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}}))(?!\d)"
    rf"|(?P<numbers>(\d{{1,2}})([./-]) ?(\d{{1,2}})\7 ?(\d{{4}}|\d{{2}}))(?!\d)"
    r"|(?P<signs>(\d{4}) ?[年년] ?(\d{1,2}) ?[月월] ?(\d{1,2}) ?[日일])"
    rf"|(?P<day_first>(\d{{1,2}})(?:\.|st|nd|rd|th|er|º|°)? ?(?:de |of )?({_MONTH}){_LETTERS}{{0,9}}\.?,? ?"
    rf"(?:de |del )?(\d{{4}}))(?!\d))"
    rf"|(?P<month_first>(?<!{_LETTERS})({_MONTH}){_LETTERS}{{0,9}}\.? (\d{{1,2}})(?:st|nd|rd|th)?,? (\d{{4}}))(?!\d)"
)
_DATES_MOST: Final = 10_000
_LABEL_DISTANCE: Final = 60  # characters between the beginning of a label and the date
_FIRST_SIGN: Final = "\u2e80"
_CENTURY: Final = 2000
_SHORT_YEAR: Final = 100


def newest_labelled(text: str, labels: Sequence[str], today: date) -> date | None:
    """Return the newest date behind one of the labels in a normalised text without case; None if there is none.

    A date may be read with the day or the month first, and the more recent reading counts. Those that are more than a
    day away in the future are none: they say until when something holds.
    """
    newest, latest, behind = None, today + timedelta(days=1), 0
    for found in islice(_DATE.finditer(text), _DATES_MOST if labels else 0):
        # With the character in front of it, which shows whether a word begins there.
        before = text[max(behind, found.start() - _LABEL_DISTANCE - 1) : found.start()]
        behind = found.end()
        if not any(_has_word(before, label) for label in labels):
            continue
        for reading in _readings(found):
            if reading <= latest and (newest is None or reading > newest):
                newest = reading
    return newest


def _has_word(text: str, word: str) -> bool:
    """Return whether a text contains a word or words that are no part of a longer one."""
    at = text.find(word)
    while at >= 0:
        if not (_goes_on(text[at - 1 : at], word[0]) or _goes_on(word[-1], text[at + len(word) :][:1])):
            return True
        at = text.find(word, at + 1)
    return False


def _goes_on(left: str, right: str) -> bool:
    """Return whether a word continues between two characters; signs of East Asia are words by themselves."""
    return left.isalpha() and right.isalpha() and max(left, right) < _FIRST_SIGN


def _readings(found: re.Match[str]) -> Iterator[date]:
    match found.lastgroup:
        case "iso":
            orders = [(found[2], found[3], found[4])]
        case "numbers":
            orders = [(found[9], found[8], found[6])]
            if found[7] != ".":  # with points, the day is first everywhere
                orders.append((found[9], found[6], found[8]))
        case "signs":
            orders = [(found[11], found[12], found[13])]
        case "day_first":
            orders = [(found[17], str(_MONTHS[found[16]]), found[15])]
        case _:
            orders = [(found[21], str(_MONTHS[found[19]]), found[20])]
    for year, month, day in orders:
        full_year = int(year) + (_CENTURY if int(year) < _SHORT_YEAR else 0)
        try:
            yield date(full_year, int(month), int(day))
        except ValueError:  # no day of the calendar
            continue
