"""Sentences in words: sizes that never contradict each other, times, lists, and values made safe."""

import re
import subprocess
import sys
import unicodedata
from decimal import Decimal
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from sluice.messages import LOCALES, catalogue_of, render, safe_text
from tests.rows import each_row, every_row

MB: Final = 2**20
UNITS: Final = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40, "bytes": 1, "byte": 1}
_SIZE: Final = re.compile(r"([\d,]+(?:\.\d+)?)\s(bytes?|KB|MB|GB|TB)")


def sizes_in(sentence: str) -> list[Decimal]:
    """Return the sizes in an English sentence, in bytes, as a reader takes them."""
    return [Decimal(number.replace(",", "")) * UNITS[unit] for number, unit in _SIZE.findall(sentence)]


@each_row(
    ("locale", "sentence"),
    [
        ("en", "This file has 21 MB; at most 10 MB are accepted. Please send a smaller one."),
        ("de", "Diese Datei hat 21 MB; höchstens 10 MB werden angenommen. Bitte senden Sie eine kleinere."),
        ("fr", "Ce fichier fait 21 Mo ; la taille maximale acceptée est de 10 Mo. Veuillez en envoyer un plus petit."),
        ("pl", "Ten plik ma 21 MB; przyjmujemy najwyżej 10 MB. Proszę wysłać mniejszy."),
        ("zh-Hans", "该文件为21 MB，最多接收10 MB。请发送较小的文件。"),
    ],
)
def test_size_and_limit_are_named(locale: str, sentence: str) -> None:
    shown = render("file_too_large.limit", {"size": 21 * MB, "max_size": 10 * MB}, locale)
    assert re.sub(r"\s", " ", shown) == sentence


@each_row(
    ("size", "limit", "shown"),
    [
        (10 * MB + 10_486, 10 * MB, ["10.01 MB", "10 MB"]),
        (10 * MB + 1, 10 * MB, ["10,485,761 bytes", "10,485,760 bytes"]),
        (1025, 1024, ["1,025 bytes", "1,024 bytes"]),
        (22 * MB + 300_000, 10 * MB, ["22.3 MB", "10 MB"]),
        (1, 0, ["1 byte", "0 bytes"]),
        (2 * MB, MB - 1, ["2 MB", "1,023.9 KB"]),
        (2**40, 2**30, ["1 TB", "1 GB"]),
    ],
)
def test_sizes_have_as_many_digits_as_tell_them_apart(size: int, limit: int, shown: list[str]) -> None:
    sentence = render("file_too_large.limit", {"size": size, "max_size": limit}, "en")
    assert [" ".join(found) for found in _SIZE.findall(sentence)] == shown


@given(st.integers(1, 2**45), st.integers(0, 2**45) | st.integers(0, 3))
def test_size_beyond_its_limit_is_shown_as_larger_or_smaller_than_that(lower: int, difference: int) -> None:
    upper = lower + 1 + difference
    size, most = sizes_in(render("file_too_large.limit", {"size": upper, "max_size": lower}, "en"))
    assert size > most
    assert most <= lower
    size, least = sizes_in(render("file_too_small.limit", {"size": lower, "min_size": upper}, "en"))
    assert size < least
    assert least >= upper


@each_row("locale", LOCALES)
@given(st.integers(0, 2**45), st.integers(1, 2**30))
def test_different_sizes_read_differently_in_every_language(locale: str, limit: int, excess: int) -> None:
    sizes = [{"size": size, "max_size": limit} for size in (limit, limit + excess)]
    assert len({render("file_too_large.limit", each, locale) for each in sizes}) == 2


@given(st.floats(0, 10**7), st.floats(0.001, 10**6))
def test_duration_that_is_too_long_is_shown_as_longer_than_its_limit(limit: float, excess: float) -> None:
    sentence = render("media_limits.duration", {"duration": limit + excess, "max_duration": limit}, "en")
    shown = [
        sum(
            int(number.replace(",", "")) * {"h": 3600, "min": 60, "s": 1}[unit]
            for number, unit in re.findall(r"([\d,]+)\s(h|min|s)\b", part)
        )
        for part in sentence.split(";")
    ]
    assert shown[0] > shown[1] or limit + excess == int(limit)


@each_row(
    ("locale", "seconds", "words"),
    [
        *(("en", seconds, "in 1 second") for seconds in (0, 0.2)),
        *(("en", seconds, f"in {seconds} seconds") for seconds in (45, 61)),
        *(("en", seconds, f"in {minutes} minutes") for seconds, minutes in ((120, 2), (121, 3), (3600, 60))),
        ("en", 7200, "in 2 hours"),
        *(("en", seconds, f"in {days} days") for seconds, days in ((9 * 86_400 + 1, 10), (40 * 86_400, 40))),
        *(("de", 300, "in 5 Minuten"), ("pl", 300, "za 5 minut"), ("ja", 300, "5 分後に")),
        *(("fr", 300, "dans 5 minutes"), ("it", 300, "tra 5 minuti")),
    ],
)
def test_wait_is_rounded_up_to_a_fitting_unit_of_the_language(locale: str, seconds: float, words: str) -> None:
    expected = f"try again {words}." if locale == "en" else words
    assert expected in render("undecided.wait", {"wait": seconds}, locale)


@each_row(
    ("count", "words"),
    [(1, "1 stronę"), (2, "2 strony"), (5, "5 stron"), (12, "12 stron"), (22, "22 strony"), (0, "0 stron")],
)
def test_number_chooses_the_plural_form(count: int, words: str) -> None:
    shown = render("too_many_pages.pages", {"count": count, "max_count": 1}, "pl")
    assert f"ma {words};" in shown


@each_row(
    ("allowed", "words"),
    [
        (["pdf"], "PDF."),
        (["pdf", "png"], "PDF or PNG."),
        (["pdf", "jpeg", "png"], "PDF, JPEG or PNG."),
        (["pdf", "PDF"], "PDF."),
    ],
)
def test_list_is_joined(allowed: list[str], words: str) -> None:
    shown = render("extension_not_allowed.short", {"extension": "exe", "allowed": allowed}, "en")
    assert shown.endswith(f"of the kind {words}")


def test_format_has_a_name_in_the_language() -> None:
    shown = render("type_mismatch.named", {"expected": "PDF", "found": "ZIP archive"}, "de")
    assert "steht für PDF" in shown
    assert "ZIP-Archiv" in shown


# Values of strangers

HOSTILE: Final = [
    *("p\u202eexe.fdp", "a\u2066b\u2069", "a\x00b\x1b[31m", "a\nb\r\nSet-Cookie: x", "a\u200bb\ufeff", "\ud800x"),
    *("אבג", "<script>alert(1)</script>", "{size}", "x" * 10_000, "e\u0301" * 500),
]


@each_row("text", HOSTILE)
@each_row("locale", ["en", "ja"])
def test_value_of_a_stranger_does_not_change_how_the_sentence_reads(text: str, locale: str) -> None:
    shown = render("extension_not_allowed.short", {"extension": text, "allowed": [text, "pdf"]}, locale)
    outside = re.sub("\u2068[^\u2066-\u2069]*\u2069", "", shown)
    assert all(unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} for letter in outside)
    assert all(unicodedata.bidirectional(letter) not in {"R", "AL", "RLO", "LRO", "RLE"} for letter in outside)
    assert len(shown) < 300


@given(st.text(max_size=200))
def test_safe_text_is_safe_and_stays_the_same_when_made_safe_again(text: str) -> None:
    safe = safe_text(text)
    assert safe_text(safe) == safe
    assert len(safe) <= 42


def test_braces_in_a_value_are_no_parameters() -> None:
    shown = render("extension_not_allowed.short", {"extension": "{allowed}", "allowed": ["pdf"]}, "en")
    assert "kind {ALLOWED} are" in shown


# What does not fit

PLAIN: Final = catalogue_of("de").messages["file_too_large.plain"]


@each_row(
    "params",
    [
        *({}, {"size": 1}),
        *({"size": size, "max_size": 1} for size in ("1", True, -1, float("nan"), float("inf"), 10**30, None, [1])),
    ],
    ids=str,
)
def test_parameters_that_do_not_fit_and_an_unknown_key_get_the_plain_sentence(params: dict[str, Any]) -> None:
    assert render("file_too_large.limit", params, "de") == PLAIN
    assert render("file_too_large.of_a_later_version", params, "de") == PLAIN


@each_row("allowed", [[], "pdf", [1], [""], ["\u202e"], None, ["a"] * 1000])
def test_list_that_does_not_fit_gets_the_plain_sentence(allowed: object) -> None:
    shown = render("extension_not_allowed.short", {"extension": "exe", "allowed": allowed}, "en")
    assert shown == catalogue_of("en").messages["extension_not_allowed.plain"]


def test_unknown_reason_gets_the_general_sentence_and_unknown_locale_is_english() -> None:
    with every_row() as row:
        for key in ("", "unknown", "unknown.key", ".", "../../en"):
            with row(key):
                assert render(key, {}, "en") == "This file could not be accepted. Please choose another one."
        for locale in ("", "xx", "EN", "../en"):
            with row(locale):
                shown = render("file_too_large.plain", {}, locale)
                assert shown == catalogue_of("en").messages["file_too_large.plain"]


def test_babel_is_loaded_by_the_first_sentence_only() -> None:
    code = (
        "import sys, sluice.messages, sluice.uploads.sentences as s; assert 'babel' not in sys.modules; "
        "s.safe_text('x'); assert 'babel' not in sys.modules; "
        "sluice.messages.render('file_too_large.plain', {}, 'de'); assert 'babel' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
