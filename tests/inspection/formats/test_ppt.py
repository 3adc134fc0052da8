"""PowerPoint 97 presentations: integrity, encryption and blankness."""

import struct
import zlib
from functools import partial

from sluice_inspect.formats.ppt.format import FORMAT, make_presentation, make_record, make_shape, make_text_box
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.image_samples import encoded, noise_picture
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
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


def nested(levels: int) -> bytes:
    deep = b""
    for _ in range(levels):
        deep = make_record(0xF003, deep, container=True)
    return make_presentation([deep])


@each_row("part", range(1, 20))
def test_truncated_presentation_is_corrupt(part: int) -> None:
    assert examine(PRESENTATION) == Examined(recognised=True, outcome=Outcome.OK)
    assert examine(PRESENTATION[: len(PRESENTATION) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("case", "old", "new"),
    [
        ("no last edit", struct.pack("<L", 0xE391C05F), bytes(4)),
        ("another record in place of the edit", EDIT, struct.pack("<HHL", 0, 0x0FF4, 28)),
        ("no list of objects", struct.pack("<HH", 0, 0x1772), struct.pack("<HH", 0, 0x1773)),
        ("no document", struct.pack("<HH", 0xF, 0x03E8), bytes(4)),
        ("no slide", struct.pack("<HH", 0xF, 0x03EE), bytes(4)),
        ("zeros instead of a shape", struct.pack("<HH", 0xF, 0xF004), bytes(4)),
        ("record too long", struct.pack("<HHL", 0, 0x0FA0, 7200), struct.pack("<HHL", 0, 0x0FA0, 7300)),
        ("truncated list", struct.pack("<L", 2 << 20 | 1), struct.pack("<L", 9 << 20 | 1)),
    ],
)
def test_broken_structure_is_corrupt(case: str, old: bytes, new: bytes) -> None:
    result = examine(changed(PRESENTATION, old, new))
    assert (result.outcome, bool(result.detail)) == (Outcome.CORRUPT, True)


UNLISTED = PRESENTATION.index(EDIT) + 36
POWERPOINT_95 = {"PP40": bytes(5000), "Current User": bytes(60)}
WITH_STORAGE = {
    "PowerPoint Document": bytes(5000),
    "Current User": bytes(60),
    "PersistentStorage Directory": bytes(100),
}
LOCK = struct.pack("<L", 0xF3D1C4DF)


@each_row(
    ("case", "data", "outcome"),
    [
        ("unlisted bytes", PRESENTATION[:UNLISTED] + b"left over" + PRESENTATION[UNLISTED + 9 :], Outcome.OK),
        ("password", changed(PRESENTATION, struct.pack("<L", 0xE391C05F), LOCK), Outcome.ENCRYPTED),
        ("PowerPoint 95", make_compound(POWERPOINT_95), Outcome.UNSUPPORTED),
        ("PowerPoint 95 with persistent storage", make_compound(WITH_STORAGE), Outcome.UNSUPPORTED),
        ("two hundred levels", nested(200), Outcome.TOO_COMPLEX),
    ],
)
def test_locked_older_or_deep_presentation_gets_its_outcome(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).verdict is outcome


BLIP = png(shows=True)
DAMAGED = BLIP[:60] + bytes([BLIP[60] ^ 1]) + BLIP[61:]
METAFILE = metafile(zlib.compress(bytes(range(256)) * 8))
DAMAGED_METAFILE = METAFILE[:-1] + b"?"
NOISE = make_record(0xF01E, bytes(17) + encoded(noise_picture(100, 100, 128, 40), "PNG"), instance=0x6E0)
WITH_HOLE = NOISE[:600] + bytes(700) + NOISE[1300:]


@each_row(
    ("case", "pictures", "outcome"),
    [
        ("whole picture", [BLIP], Outcome.OK),
        ("one damaged picture of two", [DAMAGED, BLIP], Outcome.OK),
        ("two damaged pictures", [DAMAGED, DAMAGED], Outcome.CORRUPT),
        ("damaged only picture", [DAMAGED], Outcome.CORRUPT),
        ("whole metafile", [METAFILE], Outcome.OK),
        ("damaged metafile", [DAMAGED_METAFILE, BLIP], Outcome.OK),
        ("damaged metafile and picture", [DAMAGED_METAFILE, DAMAGED], Outcome.CORRUPT),
        ("noise", [NOISE, BLIP], Outcome.OK),
        ("hole of zeros in noise", [WITH_HOLE, BLIP], Outcome.CORRUPT),
        ("zeros after the last picture", [BLIP, bytes(3000)], Outcome.OK),
        ("zeros between pictures", [BLIP, bytes(400), BLIP], Outcome.CORRUPT),
        ("other data", [bytes(400)], Outcome.CORRUPT),
    ],
)
def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not(
    case: str, pictures: list[bytes], outcome: Outcome
) -> None:
    assert examine(make_presentation([], pictures=pictures)).verdict is outcome


@each_row(
    ("case", "shapes", "blank"),
    [
        ("nothing", [], True),
        ("a text box without text", [make_text_box("")], True),
        ("spaces", [make_text_box(" \u00a0\u200b\r")], True),
        ("a placeholder without text", [make_text_box("", TITLE)], True),
        ("the number of the slide", [make_text_box("7", NUMBER_OF_SLIDE)], True),
        ("a shape without line and filling", [make_shape(properties=NO_LINE_AND_FILL)], True),
        ("the background", [make_shape(flags=0xC00)], True),
        ("a hidden shape", [make_shape(properties=[(HIDDEN, 0x20002)])], True),
        ("a full stop", [make_text_box(".")], False),
        ("a title", [make_text_box("x", TITLE)], False),
        ("a shape", [make_shape()], False),
        ("a filled shape", [make_shape(properties=[(FILL, 0x100010), (LINE, 0x80000)])], False),
        ("an object of another program", [make_shape(properties=NO_LINE_AND_FILL, flags=0xA10)], False),
        ("a missing picture", [make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 3)])], False),
        ("a shape and an empty box", [make_shape(), make_text_box("")], False),
    ],
)
def test_slide_is_blank_when_nothing_on_it_is_visible(case: str, shapes: list[bytes], *, blank: bool) -> None:
    assert bool(examine(make_presentation(shapes)).blank) is blank


@each_row("shows", [True, False])
def test_picture_is_content_only_when_it_is_not_blank(*, shows: bool) -> None:
    data = make_presentation([make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 1)])], pictures=[png(shows=shows)])
    assert (examine(data).blank is None) is shows


def test_notes_and_outline_are_not_blank() -> None:
    assert examine(make_presentation([], notes=[make_text_box("Say hello.")])).blank is None
    assert examine(make_presentation([], notes=[make_text_box("")])).blank
    assert examine(make_presentation([], outline=make_record(0x0FA8, b"A title"))).blank is None
