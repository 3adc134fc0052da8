"""What is found in texts: words, languages, dates and identifiers, and that it takes linear time."""

import time
from datetime import date

from sluice_inspect.document_text.dates import newest_labelled
from sluice_inspect.document_text.identifiers import count_identifiers, is_iban, is_payment_card, is_tax_id
from sluice_inspect.document_text.languages import languages_of
from sluice_inspect.document_text.matching import answer
from sluice_inspect.document_text.normal_form import folded, normalised
from sluice_inspect.text_questions import CHARACTERS_MOST, Identifier, Question, Words
from tests.inspection.document_text.languages import PARAGRAPHS
from tests.rows import each_row
from tests.run_length import LONG_RUN

TODAY = date(2026, 11, 29)
ALL: tuple[Identifier, ...] = ("payment_card", "iban", "us_ssn", "de_tax_id")


def is_found(text: str, *phrases: str, pattern: str | None = None) -> bool:
    asked = Question((Words(phrases, pattern),), (), (), TODAY)
    return bool(answer(text, asked)["found"])


@each_row("text, phrase, times", [
    ("The INVOICE\r\n  number: 7", "invoice number", 1),
    ("Invoiced", "invoice", 0),
    ("Reinvoice", "invoice", 0),
    ("Bank\xadstraße 3", "BANKSTRASSE", 1),  # with a soft hyphen
    ("in\ufffe\r\nvoice", "invoice", 1),  # as PDFium writes a hyphen at the end of a line
    ("ﬁnal oﬀer", "FINAL OFFER", 1),
    ("cafe\u0301", "CAFÉ", 1),
    ("请提供发票号码和日期", "发票号码", 1),
    ("このユーザーの名前", "ユーザー", 1),
    ("PayPalで支払う", "paypal", 1),
    ("Web アプリ", "Webアプリ", 1),
    ("注入式\n漏洞", "注入式漏洞", 1),  # the end of a line is no end of a word
    ("Rechnung Nr. 7", "nr.", 1),
    ("a(b", "a(b", 1),
    ("a+b", "a.b", 0),
    ("", "x", 0),
])  # fmt: skip
def test_phrase_is_found_as_whole_words_whatever_the_case_and_the_space(text: str, phrase: str, times: int) -> None:
    assert is_found(text, "something else", phrase) == times


def test_pattern_is_found_anywhere_whatever_the_case() -> None:
    assert is_found("pre-re-0042x", pattern=r"RE-\d{4}")
    assert not is_found("RE-42", "x", pattern=r"RE-\d{4}")


@each_row("language", PARAGRAPHS)
def test_language_of_a_paragraph_is_known(language: str) -> None:
    assert languages_of(folded(normalised(PARAGRAPHS[language]))) == (language,)


def test_language_that_is_not_distinguished_is_not_taken_for_a_related_one_or_for_that_of_small_print() -> None:
    icelandic = (
        "Hver maður er borinn frjáls og jafn öðrum að virðingu og réttindum. Menn eru gæddir vitsmunum og samvisku, og "
        "ber þeim að breyta bróðurlega hverjum við annan. Allir eiga rétt til lífs, frelsis og mannhelgi. "
    )
    assert languages_of(folded(normalised(icelandic))) == ()
    assert languages_of(folded(normalised(icelandic * 20 + PARAGRAPHS["en"]))) == ()


def test_every_language_of_a_document_in_twelve_is_found_and_none_of_a_table() -> None:
    twelve = dict(list(PARAGRAPHS.items())[:12])
    text = "\n".join(f"{paragraph}\n" * 12 for paragraph in twelve.values())
    assert set(languages_of(folded(normalised(text)))) == set(twelve)
    assert languages_of("qty item price total 1 tea 2.50 2 sugar 3.00 xyz 12 abc") == ()
    assert languages_of(folded("یہ ایک اردو متن ہے جو عربی رسم الخط میں لکھا گیا ہے اور عربی زبان نہیں ہے")) == ()


@each_row("text, found", [
    ("Date: 2026-03-12", date(2026, 3, 12)),
    ("Datum 12.03.2026", date(2026, 3, 12)),
    ("Rechnungsdatum 12. März 26", None),
    ("Rechnungsdatum: 12. März 2026", date(2026, 3, 12)),
    ("issued on March 12th, 2026", date(2026, 3, 12)),
    ("fecha de emisión: 12 de marzo de 2026", date(2026, 3, 12)),
    ("date : 1er août 2026", date(2026, 8, 1)),
    ("开票日期：2026年3月12日", date(2026, 3, 12)),
    ("date 03/04/26", date(2026, 4, 3)),  # the more recent of both readings
    ("date 11/12/2026", date(2026, 11, 12)),  # the other one lies in the future
    ("date 13/04/2026", date(2026, 4, 13)),
    ("date 04.05.2026", date(2026, 5, 4)),
    ("update 12.03.2026", None),
    ("12.03.2026", None),
    ("date 31.02.2026", None),
    ("date of birth 1.2.1990, date of issue 3.4.2020", date(2020, 4, 3)),
    ("date of issue 3.4.2020 12.12.2025", date(2020, 4, 3)),  # between the label and the second is another date
    ("date of expiry 2031-01-01", None),
    ("date" + " " * 5 + "x" * 70 + " 2026-03-12", None),
])  # fmt: skip
def test_newest_date_behind_a_label_is_found(text: str, found: date | None) -> None:
    labels = ("date", "datum", "issued", "rechnungsdatum", "fecha", "日期")
    assert newest_labelled(folded(normalised(text)), labels, TODAY) == found


@each_row("text, kind, count", [
    ("4111 1111 1111 1111 12/28", "payment_card", 1),
    ("4111111111111111, 4111-1111-1111-1111", "payment_card", 1),  # the same
    ("378282246310005 and 3782 822463 10005", "payment_card", 1),
    ("4111 1111 1111 1112", "payment_card", 0),
    ("9111111111111111", "payment_card", 0),  # of no network
    ("04111111111111111", "payment_card", 0),
    ("1234 4111 1111 1111 1111", "payment_card", 0),  # part of a longer number
    ("0000000000000000", "payment_card", 0),
    ("DE89 3704 0044 0532 0130 00", "iban", 1),
    ("GB82WEST12345698765432. FR1420041010050500013M02606", "iban", 2),
    ("DE88370400440532013000", "iban", 0),
    ("XX89370400440532013000", "iban", 0),
    ("DE893704004405320130001", "iban", 0),
    ("078-05-1120", "us_ssn", 1),
    ("SSN: 078 05 1120", "us_ssn", 1),
    ("078 05 1120", "us_ssn", 0),
    ("000-05-1120 666-05-1120 900-05-1120 078-00-1120 078-05-0000", "us_ssn", 0),
    ("Steuer-ID 86 095 742 719", "de_tax_id", 1),
    ("86095742719", "de_tax_id", 1),
    ("86095742710 12345678901", "de_tax_id", 0),
])  # fmt: skip
def test_identifiers_are_counted_by_form_and_checksum(text: str, kind: Identifier, count: int) -> None:
    assert count_identifiers(text, ALL) == ({kind: count} if count else {})
    assert count_identifiers(text, ()) == {}


def test_one_wrong_digit_is_no_identifier() -> None:
    for number, judge in (
        ("4111111111111111", is_payment_card),
        ("DE89370400440532013000", is_iban),
        ("86095742719", is_tax_id),
    ):
        assert judge(number)
        for at in range(2, len(number)):
            other = number[:at] + str((int(number[at]) + 1) % 10) + number[at + 1 :]
            assert not judge(other), other


def test_long_text_is_cut_and_says_so() -> None:
    asked = Question((Words(("end",)),), (), (), TODAY)
    assert answer("x" * (CHARACTERS_MOST - 5) + " end", asked)["found"] == [0]
    found = answer("x" * CHARACTERS_MOST + " end", asked)
    assert (found["found"], found["cut"]) == ([], True)


@each_row(
    "unit",
    ["a ", "1", "4111 ", "e\u0323\u0301", "DE89", "DE8 ", "date 1.1.2020 ", "ssn ", "date ", "20 mar ", "\ufdfa", "😀"],
)
def test_text_that_repeats_is_searched_in_linear_time(unit: str) -> None:
    many = tuple(Words(("a b", "invoice number"), "(a|b)*c{1,50}") for _ in range(40))
    asked = Question(many, ("date", "issued"), ALL, TODAY)
    part = 1 if LONG_RUN else 4
    began = time.process_time()
    answer(unit * (CHARACTERS_MOST // len(unit) // part), asked)
    assert time.process_time() - began < 6 / part  # the whole takes one to two seconds, and a job has 20
