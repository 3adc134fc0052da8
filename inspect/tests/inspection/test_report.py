"""`Report.from_json` returns a well-formed report or raises `ValueError`, whatever a child process writes."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect import format_list
from sluice_inspect.catalogue import FACTS, FLAGS, Unit
from sluice_inspect.registry import FORMATS, listed
from sluice_inspect.report import (
    FILLS,
    Finding,
    Measure,
    Outcome,
    Report,
    is_content_type,
    printable,
    reportable_facts,
    reportable_measures,
)
from sluice_inspect.threats.rulebook import compiled
from tests.rows import each_row, every_row

REPORT = Report(
    format="png",
    content_type="image/png",
    outcome=Outcome.OK,
    integrity=Outcome.OK,
    finding=None,
    blank=False,
    detail="",
    measures={"width": 64, "encoding": "utf-8", "seconds": 1.5, "partially_checked": True},
    facts={"width": 64, "animated": False, "video_codecs": ("h264", "vp9")},
    flags=("macro", "script.pdf"),
    ms=2.5,
)
GOOD = REPORT.to_json()
FORGED_TEXTS: list[object] = [
    "a\r\nSet-Cookie: b", "a\nb", "a\0b", "\x1b[2J", "abc\u202etxt.exe", "zero\u200bwidth", "\ufeff", "\ud800", "\x85",
    "\u2028", "x" * 501, 1, None, ["a"],
]  # fmt: skip
FORGED_TYPES: list[object] = [
    "image/PNG", "image/png; charset=utf-8", "image/png\r\nX: y", "image/png\n", "image", "image/", "/png",
    "script/javascript", "text/html/x", "image/пнг", "image/" + "p" * 95, "", None, 5,
]  # fmt: skip
FORGED_MEASURES: list[object] = [
    {"Width": 1}, {"": 1}, {"a b": 1}, {"a\n": 1}, {"_a": 1}, {"a" * 49: 1}, {1: 1}, {"a": None}, {"a": []}, {"a": math.nan},
    {"a": math.inf}, {"a": -math.inf}, {"a": 2**63 + 1}, {"a": -(2**63) - 1}, {"a": 10**400}, {"a": 1e300}, {"a": "x" * 501},
    {"a": "b\nc"}, {f"m{number}": 1 for number in range(65)}, [], None, "a",
]  # fmt: skip
FORGED_FACTS: list[object] = [
    {"nosuch": 1}, {1: 1}, {"width": -1}, {"width": 2**63 + 1}, {"width": 1.5}, {"width": True}, {"width": "64"},
    {"width": None}, {"animated": 1}, {"animated": "yes"}, {"video_codecs": "h264"}, {"video_codecs": ["nosuch"]},
    {"video_codecs": ["vp9", "h264"]}, {"video_codecs": ["vp9", "vp9"]}, {"audio_codecs": ["h264"]}, {"program_kinds": [1]},
    [], None,
]  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)
)
ALMOST_VALID_FIELDS = {
    "format": st.sampled_from([None, "png", "zip", "nosuch"]) | JSON,
    "content_type": st.sampled_from(["image/png", "text/x-c++", "application/vnd.ms-excel"]) | st.text(max_size=110),
    "outcome": st.sampled_from(list(Outcome)) | JSON,
    "integrity": st.sampled_from(list(Outcome)) | JSON,
    "finding": st.none() | st.sampled_from(list(Finding)) | JSON,
    "blank": st.booleans() | JSON,
    "detail": st.text(max_size=600),
    "blank_detail": st.text(st.characters(max_codepoint=0x7E, min_codepoint=0x20), max_size=50) | JSON,
    "fill": st.none() | st.sampled_from(sorted(FILLS)) | JSON,
    "measures": st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,47}", fullmatch=True) | st.text(max_size=5),
        st.integers() | st.floats() | st.booleans() | st.text(max_size=20),
        max_size=70,
    )
    | JSON,
    "facts": st.dictionaries(
        st.sampled_from(sorted(FACTS)) | st.text(max_size=5),
        st.integers() | st.booleans() | st.lists(st.sampled_from(["h264", "pe", "mp3", "nosuch"])),
    )
    | JSON,
    "flags": st.lists(st.sampled_from([*FLAGS, "nosuch"])) | JSON,
    "ms": st.floats(0, 1e6) | JSON,
}


def test_list_of_formats_has_what_all_formats_declare() -> None:
    assert dict(format_list.LIST) == listed(), "run `make docs`"


def test_content_types_of_all_formats_are_reportable() -> None:
    assert [each.name for each in FORMATS if not is_content_type(each.content_type)] == []


def test_report_round_trips() -> None:
    assert Report.from_json(GOOD) == REPORT
    assert Report.from_json(REPORT.to_json()).to_json() == GOOD


@each_row("raw", [None, 1, "report", [], {}, GOOD | {"more": 1}, {1: 2}, [*GOOD.items()]])
def test_anything_but_the_fields_of_a_report_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="report"):
        Report.from_json(raw)


@each_row("name", list(GOOD))
def test_report_without_a_field_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="report"):
        Report.from_json({key: value for key, value in GOOD.items() if key != name})


@each_row(
    ("name", "values"),
    [
        ("detail", FORGED_TEXTS),
        ("blank_detail", FORGED_TEXTS),
        ("content_type", FORGED_TYPES),
        ("measures", FORGED_MEASURES),
        ("facts", FORGED_FACTS),
        ("flags", [["nosuch"], ["script.pdf", "macro"], ["macro", "macro"], "macro", {"macro": 1}, [1], None]),
        ("format", ["exe", ["png"], {}]),
        ("fill", ["twos", 0]),
        ("outcome", ["fine", None]),
        ("integrity", ["blank"]),
        ("finding", ["infected", 1]),
        ("blank", [0, None]),
        ("ms", [math.nan, math.inf, -1, 10**400, True, "1"]),
    ],
)
def test_invalid_value_of_a_field_is_refused(name: str, values: list[object]) -> None:
    words = "report|Outcome|Finding" if name in {"outcome", "integrity", "finding"} else "report"
    with every_row() as row:
        for value in values:
            with row(value), pytest.raises(ValueError, match=words):
                Report.from_json(GOOD | {name: value})


@each_row(
    "measures",
    [
        {"a": 2**63, "b": -(2**63), "c": 0.0, "d": False, "e": "ü" * 500, "a1_": 1},
        {"z" * 48: 1},
        {f"m{number}": 1 for number in range(64)},
    ],
)
def test_measures_at_their_bounds_are_accepted(measures: dict[str, Measure]) -> None:
    assert Report.from_json(GOOD | {"measures": measures}).measures == measures


def test_report_does_not_change_with_its_source_mapping() -> None:
    raw: dict[str, object] = {**GOOD, "measures": {"width": 1}}
    report = Report.from_json(raw)
    raw["measures"]["width"] = 2  # type: ignore[index]  # a mapping, as written one line above
    assert report.measures == {"width": 1}


@given(st.fixed_dictionaries(ALMOST_VALID_FIELDS) | st.dictionaries(st.text(), JSON) | JSON)
def test_any_json_round_trips_or_raises_value_error(raw: object) -> None:
    try:
        report = Report.from_json(raw)
    except ValueError:
        return
    assert Report.from_json(report.to_json()) == report
    assert (report.detail + report.blank_detail).isprintable()


@given(
    st.text(max_size=600),
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_]{0,47}", fullmatch=True),
        st.integers() | st.floats() | st.booleans() | st.text(max_size=600),
        max_size=70,
    ),
)
def test_any_reader_result_is_reportable(text: str, measures: Mapping[str, Measure]) -> None:
    line = printable(text)
    report = replace(REPORT, detail=line, blank_detail=line, measures=reportable_measures(measures))
    assert Report.from_json(report.to_json()) == report


def test_unprintable_characters_become_spaces() -> None:
    assert printable("a\nb\u202ec\u00a0d") == "a b c d"
    assert printable("abc", 2) == "ab"


def test_numbers_beyond_the_bounds_are_clamped() -> None:
    measures = {"a": 10**400, "b": -math.inf, "c": math.nan, "d": True, "e": 1.5}
    assert reportable_measures(measures) == {"a": 2**63, "b": -(2**63), "d": True, "e": 1.5}


def test_reportable_facts_pass_the_boundary() -> None:
    facts = reportable_facts({"width": 10**30, "height": -5, "animated": True, "video_codecs": ("vp9", "h264", "vp9")})
    expected = {"width": 2**63, "height": 0, "animated": True, "video_codecs": ("h264", "vp9")}
    assert Report.from_json(replace(REPORT, facts=facts).to_json()).facts == expected


def test_stored_report_of_before_the_catalogue_is_readable() -> None:
    stored = {name: value for name, value in GOOD.items() if name not in {"facts", "flags"}}
    assert Report.from_stored(stored) == replace(REPORT, facts={}, flags=())
    assert Report.from_stored(GOOD) == REPORT


def test_facts_of_names_and_no_others_have_a_closed_list() -> None:
    assert {name for name in FACTS if FACTS[name].names} == {name for name in FACTS if FACTS[name].unit is Unit.NAMES}


def test_flags_of_the_malware_rules_are_in_the_catalogue() -> None:
    names = {dict(rule.metadata)["name"] for rule in compiled() if "flag" in rule.tags}
    assert names
    assert names <= set(FLAGS)
