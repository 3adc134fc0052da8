"""Which locale a request gets by its Accept-Language header (RFC 4647 section 3.4, RFC 9110 section 12.5.4)."""

import time

from hypothesis import given
from hypothesis import strategies as st

from sluice.messages import DEFAULT_LOCALE, LOCALES, negotiate
from tests.rows import each_row


@each_row(
    ("header", "locale"),
    [
        # one language, with and without a region, in any case
        *[(locale, locale) for locale in LOCALES],
        ("DE", "de"),
        ("de-AT", "de"),
        ("pt-BR", "pt"),
        ("pt-PT", "pt"),
        ("en-US,en;q=0.9", "en"),
        ("es-419", "es"),
        ("de-x-private", "de"),
        ("de-Latn-DE-1996", "de"),
        # Chinese: the script decides, or the region
        ("zh", "zh-Hans"),
        ("zh-CN", "zh-Hans"),
        ("zh-SG", "zh-Hans"),
        ("zh-Hans-CN", "zh-Hans"),
        ("zh-hans", "zh-Hans"),
        ("zh-Hans-TW", "zh-Hans"),
        ("zh-TW", "en"),
        ("zh-Hant", "en"),
        ("zh-TW,zh;q=0.9,en;q=0.8", "zh-Hans"),
        ("zh-HK,fr;q=0.5", "fr"),
        # weights
        ("fr;q=0.3,de;q=0.7", "de"),
        ("fr;q=0.7, de;q=0.7", "fr"),
        ("sv,da;q=0.9,nl;q=0.1", "nl"),
        ("de;q=0,fr;q=0.1", "fr"),
        ("de;q=0, de-AT", "en"),
        ("*", "en"),
        ("*;q=0.5,it;q=0.1", "it"),
        ("de ; q=0.5 , fr ; q=0.9", "fr"),
        ("fr;Q=1.0", "fr"),
        # what cannot be read is passed over
        ("", "en"),
        (",,;,", "en"),
        ("de;q=high,fr", "fr"),
        ("de;q=2,fr", "fr"),
        ("de;q=-1,fr", "fr"),
        ("de;q=0.5;x=1,fr;q=0.1", "fr"),
        ("de;level=1,fr", "fr"),
        ("xx-klingon", "en"),
        ("../../etc/passwd", "en"),
        ("de\x00", "en"),
        ("٣;q=٠", "en"),
    ],
)
def test_locale_is_found_by_lookup(header: str, locale: str) -> None:
    assert negotiate(header) == locale


def test_request_without_the_header_gets_english() -> None:
    assert negotiate(None) == DEFAULT_LOCALE


@given(st.text() | st.text(alphabet="dehzf-,;=q0.19 *", max_size=60))
def test_any_header_gets_a_known_locale(header: str) -> None:
    assert negotiate(header) in LOCALES


@each_row("header", ["de-" * 400_000, "xx," * 400_000, ";q=" * 400_000, "-" * 1_000_000])
def test_long_header_costs_no_more_than_a_short_one(header: str) -> None:
    started = time.thread_time()
    for _ in range(100):
        negotiate(header)
    assert time.thread_time() - started < 0.5
