import struct
import zlib

import pytest

from sluice.formats.kinds.ppt import KIND
from sluice.formats.office.compound_sample import make_compound
from sluice.formats.office.ppt_sample import make_presentation, record, shape, text_box
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import picture

FILL, LINE, HIDDEN, PICTURE = 0x01BF, 0x01FF, 0x03BF, 0x4104
NO_LOOK = ((FILL, 0x100000), (LINE, 0x80000))
TITLE, NUMBER_OF_SLIDE = 13, 8
PRESENTATION = make_presentation([text_box("Words on a slide. " * 200)])
EDIT = struct.pack("<HHL", 0, 0x0FF5, 28)


def png(*, shows: bool) -> bytes:
    content = picture(shows=shows).getvalue()
    return record(0xF01E, bytes(17) + content, instance=0x6E0)


def metafile(content: bytes) -> bytes:
    header = struct.pack("<28xLBB", len(content), 0, 0xFE)
    return record(0xF01A, bytes(16) + header + content, instance=0x3D4)


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_a_presentation_is_sound_and_not_blank() -> None:
    judged = judge(KIND, PRESENTATION)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_a_presentation_of_powerpoint_95_is_unsupported() -> None:
    streams = {"PowerPoint Document": bytes(5000), "Current User": bytes(60), "PersistentStorage Directory": bytes(100)}
    assert judge(KIND, make_compound(streams)).outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_presentation_is_corrupt(part: int) -> None:
    assert judge(KIND, PRESENTATION[: len(PRESENTATION) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(struct.pack("<L", 0xE391C05F), bytes(4), id="no last edit"),
        pytest.param(EDIT, struct.pack("<HHL", 0, 0x0FF4, 28), id="another record where the edit is"),
        pytest.param(struct.pack("<HH", 0, 0x1772), struct.pack("<HH", 0, 0x1773), id="no list of objects"),
        pytest.param(struct.pack("<HH", 0xF, 0x03E8), bytes(4), id="no document"),
        pytest.param(struct.pack("<HH", 0xF, 0x03EE), bytes(4), id="no slide"),
        pytest.param(struct.pack("<HH", 0xF, 0xF004), bytes(4), id="zeros instead of a shape"),
        pytest.param(struct.pack("<HHL", 0, 0x0FA0, 7200), struct.pack("<HHL", 0, 0x0FA0, 7300), id="record too long"),
        pytest.param(struct.pack("<L", 2 << 20 | 1), struct.pack("<L", 9 << 20 | 1), id="list cut"),
    ],
)
def test_a_structure_that_leads_nowhere_is_corrupt(old: bytes, new: bytes) -> None:
    judged = judge(KIND, changed(PRESENTATION, old, new))
    assert judged.outcome is Outcome.CORRUPT
    assert judged.detail


def test_what_no_edit_lists_is_not_looked_at() -> None:
    stream = PRESENTATION.index(EDIT)
    assert judge(KIND, PRESENTATION[: stream + 36] + b"left over" + PRESENTATION[stream + 45 :]).outcome is Outcome.OK


def test_a_presentation_behind_a_password_is_encrypted() -> None:
    locked = changed(PRESENTATION, struct.pack("<L", 0xE391C05F), struct.pack("<L", 0xF3D1C4DF))
    assert judge(KIND, locked).outcome is Outcome.ENCRYPTED


def test_powerpoint_95_cannot_be_judged() -> None:
    judged = judge(KIND, make_compound({"PP40": bytes(5000), "Current User": bytes(60)}))
    assert judged.recognised
    assert judged.outcome is Outcome.UNSUPPORTED


def test_endless_nesting_is_too_complex() -> None:
    deep = b""
    for _ in range(200):
        deep = record(0xF003, deep, container=True)
    assert judge(KIND, make_presentation([deep])).outcome is Outcome.TOO_COMPLEX


def test_a_damaged_picture_is_corrupt() -> None:
    blip = png(shows=True)
    assert judge(KIND, make_presentation([], pictures=[blip])).outcome is Outcome.OK
    damaged = blip[:60] + bytes([blip[60] ^ 1]) + blip[61:]
    assert judge(KIND, make_presentation([], pictures=[damaged])).outcome is Outcome.CORRUPT


def test_a_damaged_metafile_is_corrupt() -> None:
    packed = zlib.compress(bytes(range(256)) * 8)
    assert judge(KIND, make_presentation([], pictures=[metafile(packed)])).outcome is Outcome.OK
    assert judge(KIND, make_presentation([], pictures=[metafile(packed[:-1] + b"?")])).outcome is Outcome.CORRUPT


def test_zeros_behind_the_last_picture_pass_and_between_two_are_corrupt() -> None:
    assert judge(KIND, make_presentation([], pictures=[png(shows=True), bytes(3000)])).passes
    assert judge(KIND, make_presentation([], pictures=[png(shows=True), bytes(400), png(shows=True)])).outcome is Outcome.CORRUPT


def test_something_between_the_pictures_is_corrupt() -> None:
    assert judge(KIND, make_presentation([], pictures=[bytes(400)])).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([], id="nothing"),
        pytest.param([text_box("")], id="a text box without text"),
        pytest.param([text_box(" \u00a0\u200b\r")], id="spaces"),
        pytest.param([text_box("", TITLE)], id="a placeholder without text"),
        pytest.param([text_box("7", NUMBER_OF_SLIDE)], id="the number of the slide"),
        pytest.param([shape(properties=NO_LOOK)], id="a shape without line and filling"),
        pytest.param([shape(flags=0xC00)], id="the background"),
        pytest.param([shape(properties=[(HIDDEN, 0x20002)])], id="a hidden shape"),
    ],
)
def test_a_slide_that_shows_nothing_is_blank(shapes: list[bytes]) -> None:
    assert judge(KIND, make_presentation(shapes)).blank


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param([text_box(".")], id="a full stop"),
        pytest.param([text_box("x", TITLE)], id="a title"),
        pytest.param([shape()], id="a shape"),
        pytest.param([shape(properties=[(FILL, 0x100010), (LINE, 0x80000)])], id="a filled shape"),
        pytest.param([shape(properties=NO_LOOK, flags=0xA10)], id="an object of another program"),
        pytest.param([shape(properties=[*NO_LOOK, (PICTURE, 3)])], id="a picture that is not found"),
        pytest.param([shape(), text_box("")], id="a shape and an empty box"),
    ],
)
def test_a_slide_that_shows_something_is_not_blank(shapes: list[bytes]) -> None:
    assert judge(KIND, make_presentation(shapes)).blank is None


@pytest.mark.parametrize("shows", [True, False])
def test_a_picture_counts_when_it_shows_something(*, shows: bool) -> None:
    data = make_presentation([shape(properties=[*NO_LOOK, (PICTURE, 1)])], pictures=[png(shows=shows)])
    assert (judge(KIND, data).blank is None) is shows


def test_notes_and_the_outline_are_content() -> None:
    assert judge(KIND, make_presentation([], notes=[text_box("Say hello.")])).blank is None
    assert judge(KIND, make_presentation([], notes=[text_box("")])).blank
    assert judge(KIND, make_presentation([], outline=record(0x0FA8, b"A title"))).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("ppt", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("ppt", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("ppt", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
    locked = corpus("ppt", "password_protected")
    assert [path.name for path in locked if judge(KIND, path.read_bytes()).outcome is not Outcome.ENCRYPTED] == []
