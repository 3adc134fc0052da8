"""Numbers that name a person or an account, recognised by their form and their checksum."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from sluice_inspect.text_questions import IDENTIFIERS_MOST, Identifier

# Unbroken, or in the groups in which cards print them. Nothing of a longer number.
_CARD: Final = re.compile(
    r"(?<![0-9])(?:(?<![0-9][.,-])[0-9]{13,19}(?![.,-]?[0-9])"
    r"|(?<![0-9]{4}[ -])(?:[0-9]{4}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|[0-9]{4}([ -])[0-9]{6}\2[0-9]{4,5})"
    r"(?![0-9])(?![ -][0-9]{4}))",
    re.ASCII,
)
# The first digits of the large networks, and the lengths of their numbers (ISO/IEC 7812).
_NETWORKS: Final = (
    (re.compile(r"4"), {13, 16, 19}),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), {16}),
    (re.compile(r"3[47]"), {15}),
    (re.compile(r"30[0-5]|3[689]"), {14, 16, 19}),
    (re.compile(r"6011|64[4-9]|65"), {16, 19}),
    (re.compile(r"35(?:2[89]|[3-8])"), {16, 17, 18, 19}),
    (re.compile(r"62|81"), {16, 17, 18, 19}),
)
_ACCOUNT: Final = re.compile(r"(?<![A-Za-z0-9])([A-Z]{2})[0-9]{2}(?=[ -]?[A-Z0-9])", re.ASCII)
# Characters of an IBAN by country (the registry of SWIFT, release 99).
_IBAN_LENGTHS: Final[Mapping[str, int]] = {
    name: length
    for length, names in {
        15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV YE", 29: "BR EG PS QA UA", 30: "JO KW MU", 31: "MT SC", 32: "LC",
        33: "RU",
    }.items()
    for name in names.split()
}  # fmt: skip
_SEPARATORS: Final = frozenset(" -")
_SSN: Final = re.compile(r"(?<![0-9-])([0-9]{3})-([0-9]{2})-([0-9]{4})(?![0-9-])", re.ASCII)
_LABELLED_SSN: Final = re.compile(
    r"(?:\bssn|social security (?:number|no|#))[^0-9]{0,12}([0-9]{3})[ -]?([0-9]{2})[ -]?([0-9]{4})(?![0-9])",
    re.ASCII | re.IGNORECASE,
)
_NO_AREAS: Final = frozenset({"000", "666"})
_TAX: Final = re.compile(
    r"(?<![0-9])(?<![0-9][ .,-])(?:[1-9][0-9]{10}|[1-9][0-9] [0-9]{3} [0-9]{3} [0-9]{3})(?![0-9])(?![.,-][0-9])",
    re.ASCII,
)


def count_identifiers(text: str, wanted: tuple[Identifier, ...]) -> dict[Identifier, int]:
    """Return how many different numbers of each wanted kind are in a normalised text, without kinds that have none."""
    counts: dict[Identifier, int] = {}
    for name in wanted:
        # Not more than a few times as many, so that a list of them is not read to its end.
        found = set(islice(_FINDERS[name](text), 4 * IDENTIFIERS_MOST))
        if found:
            counts[name] = min(len(found), IDENTIFIERS_MOST)
    return counts


def is_payment_card(digits: str) -> bool:
    """Return whether digits are the number of a payment card: those of a network, with the check digit of Luhn."""
    networks = (lengths for begin, lengths in _NETWORKS if begin.match(digits))
    if not any(len(digits) in lengths for lengths in networks) or len(set(digits)) == 1:
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def is_iban(number: str) -> bool:
    """Return whether a number without spaces is an IBAN of its country, by ISO 13616."""
    if len(number) != _IBAN_LENGTHS.get(number[:2]) or not number.isalnum() or not number.isascii():
        return False
    return int("".join(str(int(letter, 36)) for letter in number[4:] + number[:4])) % 97 == 1


def is_ssn(area: str, group: str, serial: str) -> bool:
    """Return whether the parts of a number may be given as a social security number of the United States."""
    return area not in _NO_AREAS and area < "900" and group != "00" and serial != "0000"


def is_tax_id(digits: str) -> bool:
    """Return whether eleven digits are a tax identification number of Germany (ISO 7064, MOD 11,10)."""
    # Of the first ten digits one comes twice or three times, and no other more than once.
    counts = sorted(digits[:10].count(each) for each in set(digits[:10]))
    if counts[-1] not in {2, 3} or counts[-2] != 1 or len(digits) != 11:
        return False
    product = 10
    for digit in digits[:10]:
        product = 2 * ((int(digit) + product) % 10 or 10) % 11
    return (11 - product) % 10 == int(digits[10])


def _cards(text: str) -> Iterator[str]:
    for found in _CARD.finditer(text):
        digits = found[0].replace(" ", "").replace("-", "")
        if is_payment_card(digits):
            yield digits


def _ibans(text: str) -> Iterator[str]:
    for found in _ACCOUNT.finditer(text):
        length = _IBAN_LENGTHS.get(found[1])
        if length is None:
            continue
        number, at = "", found.start()
        while len(number) < length and at < len(text):
            if text[at] not in _SEPARATORS:
                number += text[at]
            elif text[at - 1] in _SEPARATORS:
                break
            at += 1
        if not text[at : at + 1].isalnum() and is_iban(number):
            yield number


def _ssns(text: str) -> Iterator[str]:
    for pattern in (_SSN, _LABELLED_SSN):
        for found in pattern.finditer(text):
            if is_ssn(*found.groups()):
                yield "".join(found.groups())


def _tax_ids(text: str) -> Iterator[str]:
    for found in _TAX.finditer(text):
        digits = found[0].replace(" ", "")
        if is_tax_id(digits):
            yield digits


_FINDERS: Final[Mapping[Identifier, Callable[[str], Iterator[str]]]] = {
    "payment_card": _cards,
    "iban": _ibans,
    "us_ssn": _ssns,
    "de_tax_id": _tax_ids,
}
