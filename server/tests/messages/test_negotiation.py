"""Which locale a request gets by its Accept-Language header (RFC 4647 section 3.4, RFC 9110 section 12.5.4)."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sluice.messages import DEFAULT_LOCALE, LOCALES, negotiate
from tests.rows import each_row

HEADERS = {
    # one language, with and without a region, in any case
    "de": "DE de-AT de-x-private de-Latn-DE-1996 fr;q=0.3,de;q=0.7",
    "pt": "pt-BR pt-PT",
    "es": "es-419",
    # Hebrew by its old code too
    "he": "he-IL iw iw-IL",
    # Chinese: the script decides, or the region
    "zh-Hans": "zh zh-CN zh-SG zh-Hans-CN zh-hans zh-Hans-TW zh-TW,zh;q=0.9,en;q=0.8",
    "en": "en-US,en;q=0.9 zh-TW zh-Hant * xx-klingon ../../etc/passwd ٣;q=٠ ,,;,",
    # weights; what cannot be read is passed over
    "fr": "zh-HK,fr;q=0.5 de;q=0,fr;q=0.1 fr;Q=1.0 de;q=high,fr de;q=2,fr de;q=-1,fr de;q=0.5;x=1,fr;q=0.1 de;level=1,fr",
    "nl": "sv,da;q=0.9,nl;q=0.1",
}


@each_row(
    "header, locale",
    [
        *((locale, locale) for locale in LOCALES),
        *((header, locale) for locale, headers in HEADERS.items() for header in headers.split(" ")),
        *(("fr;q=0.7, de;q=0.7", "fr"), ("de ; q=0.5 , fr ; q=0.9", "fr"), ("de;q=0, de-AT", "en")),
        *(("*;q=0.5,it;q=0.1", "it"), ("", "en"), ("de\x00", "en")),
    ],
)
def test_locale_is_found_by_lookup(header: str, locale: str) -> None:
    assert negotiate(header) == locale


@given(st.text() | st.text(alphabet="dehzf-,;=q0.19 *", max_size=60))
def test_any_header_gets_a_known_locale(header: str) -> None:
    assert negotiate(header) in LOCALES


def test_request_without_the_header_gets_english() -> None:
    assert negotiate(None) == DEFAULT_LOCALE


@each_row("header", ["de-" * 400_000, "xx," * 400_000, ";q=" * 400_000, "-" * 1_000_000])
def test_long_header_costs_no_more_than_its_first_thousand_characters(header: str) -> None:
    costs = [[_seconds_of(sent) for _ in range(5)] for sent in (header[:1000], header)]
    short, whole = map(min, costs)
    assert whole < 3 * short + 0.01


def _seconds_of(header: str) -> float:
    started = time.thread_time()
    for _ in range(10):
        negotiate(header)
    return time.thread_time() - started
