"""PowerPoint 97 presentations: integrity, encryption and blankness."""

import struct
import zlib

import pytest

from sluice_inspect.formats.ppt.format import FORMAT, make_presentation, make_record, make_shape, make_text_box
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.image_samples import encoded, grey_picture, noise_field
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

FILL, LINE, HIDDEN, PICTURE = 0x01BF, 0x01FF, 0x03BF, 0x4104
NO_LINE_AND_FILL = ((FILL, 0x100000), (LINE, 0x80000))
TITLE, NUMBER_OF_SLIDE = 13, 8
PRESENTATION = make_presentation([make_text_box("Words on a slide. " * 200)])
EDIT = struct.pack("<HHL", 0, 0x0FF5, 28)


def png(*, shows: bool) -> bytes:
    content = picture(shows=shows).getvalue()
    return make_record(0xF01E, bytes(17) + content, instance=0x6E0)


def metafile(content: bytes) -> bytes:
    header = struct.pack("<28xLBB", len(content), 0, 0xFE)
    return make_record(0xF01A, bytes(16) + header + content, instance=0x3D4)


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_presentation_is_sound_and_not_blank() -> None:
    result = examine_bytes(FORMAT, PRESENTATION)
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


def test_powerpoint_95_with_persistent_storage_is_unsupported() -> None:
    streams = {"PowerPoint Document": bytes(5000), "Current User": bytes(60), "PersistentStorage Directory": bytes(100)}
    assert examine_bytes(FORMAT, make_compound(streams)).outcome is Outcome.UNSUPPORTED


@each_row("part", range(1, 20))
def test_truncated_presentation_is_corrupt(part: int) -> None:
    assert examine_bytes(FORMAT, PRESENTATION[: len(PRESENTATION) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("old", "new"),
    [
        pytest.param(struct.pack("<L", 0xE391C05F), bytes(4), id="no last edit"),
        pytest.param(EDIT, struct.pack("<HHL", 0, 0x0FF4, 28), id="another record in place of the edit"),
        pytest.param(struct.pack("<HH", 0, 0x1772), struct.pack("<HH", 0, 0x1773), id="no list of objects"),
        pytest.param(struct.pack("<HH", 0xF, 0x03E8), bytes(4), id="no document"),
        pytest.param(struct.pack("<HH", 0xF, 0x03EE), bytes(4), id="no slide"),
        pytest.param(struct.pack("<HH", 0xF, 0xF004), bytes(4), id="zeros instead of a shape"),
        pytest.param(struct.pack("<HHL", 0, 0x0FA0, 7200), struct.pack("<HHL", 0, 0x0FA0, 7300), id="record too long"),
        pytest.param(struct.pack("<L", 2 << 20 | 1), struct.pack("<L", 9 << 20 | 1), id="truncated list"),
    ],
)
def test_broken_structure_is_corrupt(old: bytes, new: bytes) -> None:
    result = examine_bytes(FORMAT, changed(PRESENTATION, old, new))
    assert result.outcome is Outcome.CORRUPT
    assert result.detail


def test_unlisted_bytes_are_ignored() -> None:
    stream = PRESENTATION.index(EDIT)
    assert (
        examine_bytes(FORMAT, PRESENTATION[: stream + 36] + b"left over" + PRESENTATION[stream + 45 :]).outcome
        is Outcome.OK
    )


def test_password_protected_presentation_is_encrypted() -> None:
    locked = changed(PRESENTATION, struct.pack("<L", 0xE391C05F), struct.pack("<L", 0xF3D1C4DF))
    assert examine_bytes(FORMAT, locked).outcome is Outcome.ENCRYPTED


def test_powerpoint_95_is_unsupported() -> None:
    result = examine_bytes(FORMAT, make_compound({"PP40": bytes(5000), "Current User": bytes(60)}))
    assert result.recognised
    assert result.outcome is Outcome.UNSUPPORTED


def test_endless_nesting_is_too_complex() -> None:
    deep = b""
    for _ in range(200):
        deep = make_record(0xF003, deep, container=True)
    assert examine_bytes(FORMAT, make_presentation([deep])).outcome is Outcome.TOO_COMPLEX


BLIP = png(shows=True)
DAMAGED = BLIP[:60] + bytes([BLIP[60] ^ 1]) + BLIP[61:]
METAFILE = metafile(zlib.compress(bytes(range(256)) * 8))


def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not() -> None:
    assert examine_bytes(FORMAT, make_presentation([], pictures=[BLIP])).passes
    assert examine_bytes(FORMAT, make_presentation([], pictures=[DAMAGED, BLIP])).passes
    assert examine_bytes(FORMAT, make_presentation([], pictures=[DAMAGED, DAMAGED])).outcome is Outcome.CORRUPT


def test_one_damaged_metafile_among_others_is_forgiven_and_two_are_not() -> None:
    assert examine_bytes(FORMAT, make_presentation([], pictures=[METAFILE])).passes
    damaged = METAFILE[:-1] + b"?"
    assert examine_bytes(FORMAT, make_presentation([], pictures=[damaged, BLIP])).passes
    assert examine_bytes(FORMAT, make_presentation([], pictures=[damaged, DAMAGED])).outcome is Outcome.CORRUPT


def test_damage_in_the_only_picture_is_corrupt() -> None:
    assert examine_bytes(FORMAT, make_presentation([], pictures=[DAMAGED])).outcome is Outcome.CORRUPT


def test_hole_of_zeros_in_a_picture_is_corrupt() -> None:
    content = encoded(grey_picture(noise_field(100, 100, 128, 40)), "PNG")
    blip = make_record(0xF01E, bytes(17) + content, instance=0x6E0)
    assert examine_bytes(FORMAT, make_presentation([], pictures=[blip, BLIP])).passes
    hole = blip[:600] + bytes(700) + blip[1300:]
    assert examine_bytes(FORMAT, make_presentation([], pictures=[hole, BLIP])).outcome is Outcome.CORRUPT


def test_zeros_pass_after_the_last_picture_but_not_between_pictures() -> None:
    assert examine_bytes(FORMAT, make_presentation([], pictures=[png(shows=True), bytes(3000)])).passes
    assert (
        examine_bytes(FORMAT, make_presentation([], pictures=[png(shows=True), bytes(400), png(shows=True)])).outcome
        is Outcome.CORRUPT
    )


def test_other_data_between_pictures_is_corrupt() -> None:
    assert examine_bytes(FORMAT, make_presentation([], pictures=[bytes(400)])).outcome is Outcome.CORRUPT


@each_row(
    "shapes",
    [
        pytest.param([], id="nothing"),
        pytest.param([make_text_box("")], id="a text box without text"),
        pytest.param([make_text_box(" \u00a0\u200b\r")], id="spaces"),
        pytest.param([make_text_box("", TITLE)], id="a placeholder without text"),
        pytest.param([make_text_box("7", NUMBER_OF_SLIDE)], id="the number of the slide"),
        pytest.param([make_shape(properties=NO_LINE_AND_FILL)], id="a shape without line and filling"),
        pytest.param([make_shape(flags=0xC00)], id="the background"),
        pytest.param([make_shape(properties=[(HIDDEN, 0x20002)])], id="a hidden shape"),
    ],
)
def test_slide_without_visible_content_is_blank(shapes: list[bytes]) -> None:
    assert examine_bytes(FORMAT, make_presentation(shapes)).blank


@each_row(
    "shapes",
    [
        pytest.param([make_text_box(".")], id="a full stop"),
        pytest.param([make_text_box("x", TITLE)], id="a title"),
        pytest.param([make_shape()], id="a shape"),
        pytest.param([make_shape(properties=[(FILL, 0x100010), (LINE, 0x80000)])], id="a filled shape"),
        pytest.param([make_shape(properties=NO_LINE_AND_FILL, flags=0xA10)], id="an object of another program"),
        pytest.param([make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 3)])], id="a missing picture"),
        pytest.param([make_shape(), make_text_box("")], id="a shape and an empty box"),
    ],
)
def test_slide_with_visible_content_is_not_blank(shapes: list[bytes]) -> None:
    assert examine_bytes(FORMAT, make_presentation(shapes)).blank is None


@each_row("shows", [True, False])
def test_picture_is_content_only_when_it_is_not_blank(*, shows: bool) -> None:
    data = make_presentation([make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 1)])], pictures=[png(shows=shows)])
    assert (examine_bytes(FORMAT, data).blank is None) is shows


def test_notes_and_outline_are_not_blank() -> None:
    assert examine_bytes(FORMAT, make_presentation([], notes=[make_text_box("Say hello.")])).blank is None
    assert examine_bytes(FORMAT, make_presentation([], notes=[make_text_box("")])).blank
    assert examine_bytes(FORMAT, make_presentation([], outline=make_record(0x0FA8, b"A title"))).blank is None
