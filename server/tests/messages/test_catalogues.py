"""The catalogues: the same keys, parameters and formats in every language, all plural forms, and plain words."""

import json
import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any, Final

import pytest
from babel import Locale

from sluice.messages import DEFAULT_LOCALE, LOCALES, PARAMETERS, ParameterType, catalogue_of, plain_key
from sluice.messages.patterns import BadPattern, names_in, parse, plurals_in
from sluice.uploads.reasons import Reason
from tests.rows import each_row

ENGLISH: Final = catalogue_of(DEFAULT_LOCALE)
TRANSLATIONS: Final = [locale for locale in LOCALES if locale != DEFAULT_LOCALE]
KEYS: Final = sorted(ENGLISH.messages)
POLICIES: Final = (
    *("content_type_not_allowed", "encrypted_file", "active_content", "program_in_archive", "image_dimensions"),
    "illegible_picture",
    *("too_many_pages", "media_limits", "archive_limits", "file_too_small", "filename_not_allowed", "duplicate_file"),
    "rejected_by_check",
)
OUTCOMES: Final = ("accepted", "rejected", "quarantined", "undecided")
UNITS: Final = {"byte", "kilobyte", "megabyte", "gigabyte", "terabyte", "hour", "minute", "second"}
FAMILIAR: Final = {
    "de": r"\b(du|dir|dich|dein\w*)\b",
    "fr": r"\b(tu|toi|ton|tes)\b",
    "es": r"\b(tú|tu|tus|ti|vosotros)\b",
    "it": r"\b(tu|tuo|tua|tuoi|tue)\b",
    "nl": r"\b(je|jij|jou|jouw)\b",
    "pl": r"\b(ty|twój|twoja|twoje)\b",
    "pt": r"\b(tu|teu|tua)\b",
    "tr": r"\b(sen|sana|seni|senin)\b",
    "uk": r"\b(ти|тебе|тобі|тво[їєяюй]\w*)\b",
    "ko": "(네가|너의|당신)",
    "hi": r"(?<!\S)(तू|तुम|तेर|तुम्हार)",
}


def test_there_is_a_file_for_each_locale_and_no_other() -> None:
    names = {file.name for file in files("sluice.messages").iterdir() if file.name.endswith(".json")}
    assert names == {f"{locale}.json" for locale in LOCALES}
    assert all(catalogue_of(locale).locale == locale for locale in LOCALES)


@each_row("locale", TRANSLATIONS)
def test_translation_has_the_keys_and_parameters_of_the_english_catalogue(locale: str) -> None:
    translated = catalogue_of(locale)
    for kind in ("messages", "page", "formats"):
        found, english = getattr(translated, kind), getattr(ENGLISH, kind)
        assert (english.keys() - found.keys(), found.keys() - english.keys()) == (set(), set())
        assert kind == "formats" or list(found) == list(english), "the order differs"
    for texts, english in ((translated.messages, ENGLISH.messages), (translated.page, ENGLISH.page)):
        named = [{key: names_in(parse(text)) for key, text in each.items()} for each in (texts, english)]
        assert named[0] == named[1]


@each_row("locale", LOCALES)
def test_no_key_is_written_twice(locale: str) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    json.loads(files("sluice.messages").joinpath(f"{locale}.json").read_text("utf-8"), object_pairs_hook=unique)


def test_every_parameter_has_a_type_and_is_used_and_plural_ones_are_counts() -> None:
    patterns = [parse(ENGLISH.messages[key]) for key in KEYS]
    used = {name for pattern in patterns for name in names_in(pattern)}
    assert used <= PARAMETERS.keys()
    assert PARAMETERS.keys() - used <= {"min_size", "min_width", "min_height"} | used
    assert set(ParameterType) == set(PARAMETERS.values())
    chosen = {plural.name for pattern in patterns for plural in plurals_in(pattern)}
    assert {PARAMETERS[name] for name in chosen} == {ParameterType.COUNT}


def test_each_reason_and_outcome_and_no_other_has_keys_and_a_sentence_without_parameters() -> None:
    known = {*(reason.value for reason in Reason), *POLICIES, *OUTCOMES}
    assert {key.partition(".")[0] for key in KEYS} == known
    assert all(re.fullmatch(r"[a-z_]+\.[a-z_]+", key) for key in KEYS)
    assert [code for code in known if names_in(parse(ENGLISH.messages[plain_key(f"{code}.any")]))] == []


@each_row("locale", LOCALES)
def test_units_and_plurals_have_exactly_the_forms_of_the_language(locale: str) -> None:
    forms = {*Locale.parse(locale.replace("-", "_")).plural_form.tags, "other"}
    texts = catalogue_of(locale)
    assert texts.units.keys() == UNITS
    assert all(names_in(parse(text)) == {"count"} for text in texts.units.values())
    for message in [*texts.messages.values(), *texts.page.values(), *texts.units.values()]:
        for plural in plurals_in(parse(message)):
            assert plural.words.keys() == forms, message
            assert all(names_in(words) == {plural.name} for words in plural.words.values()), message


def matching(locale: str, pattern: str) -> list[str]:
    """Return the sentences of a locale, and the words of its page, in which the expression is found."""
    catalogue = catalogue_of(locale)
    return _found([*catalogue.messages.values(), *catalogue.page.values()], pattern)


def _found(texts: Iterable[str], pattern: str) -> list[str]:
    texts = [text.replace(", plural, ", " plural ") for text in texts]
    return [text for text in texts if re.search(pattern, text, re.IGNORECASE)]


@each_row("locale", LOCALES)
def test_sentences_are_typeset_and_name_no_fixed_number(locale: str) -> None:
    is_wide = locale in {"ja", "zh-Hans"}
    assert matching(locale, r"""["'`]|\.\.|  |^\s|\s$""") == []
    assert matching(locale, r" [;:!?]") == [], "a line may break before the mark"
    no_full_stop = r"(?<![。])$" if is_wide else "(?<!।)$" if locale == "hi" else r"(?<!\.)$"
    assert _found(catalogue_of(locale).messages.values(), no_full_stop) == [], "no full stop"
    assert not is_wide or matching(locale, r"[,;:.!?] ?[\u3040-\u9fff]") == [], "marks of the wrong width"
    assert matching(locale, r".{400}") == []
    # Limits are parameters: what is written into a sentence would be a threshold, and wrong after a change.
    assert matching(locale, r"\d") == []


@each_row("locale", FAMILIAR)
def test_sender_is_addressed_formally(locale: str) -> None:
    assert matching(locale, FAMILIAR[locale]) == []


def test_english_sentences_have_no_jargon_and_no_blame() -> None:
    jargon = (
        r"virus|malware|threat|trojan|signature|polyglot|bomb|traversal|header|offset|mime|content.type|"
        r"byte|parse|decode|invalid|illegal|forbidden|error|fail|wrong|must|heuristic|scanner|sandbox|quarantine"
    )
    assert matching("en", jargon) == []


@each_row("locale", TRANSLATIONS)
def test_no_sentence_was_left_in_english(locale: str) -> None:
    translated = catalogue_of(locale)
    assert [key for key in KEYS if translated.messages[key] == ENGLISH.messages[key]] == []
    assert [key for key, text in translated.page.items() if text == ENGLISH.page[key]] == []


@each_row(
    "text",
    [
        *("{", "}", "{a", "{}", "{A}", "{a b}", "{a, number}", "x}", "{a, select, other {x}}"),
        *("{a, plural, one {x}}", "{a, plural, other {x}", "{a, plural, other x}", "{a, plural, odd {x} other {y}}"),
        *("{a, plural, other {x} other {y}}", "{a, plural, =1 {x} other {y}}"),
    ],
)
def test_pattern_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(BadPattern):
        parse(text)
