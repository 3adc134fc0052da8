"""PowerPoint 97 presentations: integrity, encryption and blankness."""

import struct
import zlib
from collections.abc import Iterable

from sluice_inspect.formats.ppt.format import FORMAT, make_presentation, make_record, make_shape, make_text_box
from sluice_inspect.office.compound import make_compound
from tests.inspection.formats.examining import Row, cuts, replaced, verdicts
from tests.inspection.formats.image_samples import chess_board, encoded, noise_picture
from tests.inspection.formats.office_packages import picture

FILL, LINE, HIDDEN, PICTURE = 0x01BF, 0x01FF, 0x03BF, 0x4104
NO_LINE_AND_FILL = ((FILL, 0x100000), (LINE, 0x80000))
TITLE, NUMBER_OF_SLIDE = 13, 8


def blip(content: bytes) -> bytes:
    return make_record(0xF01E, bytes(17) + content, instance=0x6E0)


def png(*, shows: bool) -> bytes:
    return blip(picture(shows=shows).getvalue())


def with_pictures(*pictures: bytes) -> bytes:
    return make_presentation([], pictures=[*pictures])


@verdicts(FORMAT)
def test_damaged_locked_older_or_deep_presentation_gets_its_verdict() -> Iterable[Row]:
    good = make_presentation([make_text_box("Words on a slide. " * 200)])
    yield "good", good, "ok"
    yield from cuts(good)
    edit = struct.pack("<HHL", 0, 0x0FF5, 28)
    for case, old, new in (
        ("no last edit", struct.pack("<L", 0xE391C05F), bytes(4)),
        ("another record in place of the edit", edit, struct.pack("<HHL", 0, 0x0FF4, 28)),
        ("no list of objects", struct.pack("<HH", 0, 0x1772), struct.pack("<HH", 0, 0x1773)),
        ("no document", struct.pack("<HH", 0xF, 0x03E8), bytes(4)),
        ("no slide", struct.pack("<HH", 0xF, 0x03EE), bytes(4)),
        ("zeros instead of a shape", struct.pack("<HH", 0xF, 0xF004), bytes(4)),
        ("record too long", struct.pack("<HHL", 0, 0x0FA0, 7200), struct.pack("<HHL", 0, 0x0FA0, 7300)),
        ("truncated list", struct.pack("<L", 2 << 20 | 1), struct.pack("<L", 9 << 20 | 1)),
    ):
        yield case, replaced(good, old, new), "corrupt", " "
    unlisted = good.index(edit) + 36
    yield "unlisted bytes", good[:unlisted] + b"left over" + good[unlisted + 9 :], "ok"
    lock = struct.pack("<L", 0xF3D1C4DF)
    yield "password", replaced(good, struct.pack("<L", 0xE391C05F), lock), "encrypted"
    yield "PowerPoint 95", make_compound({"PP40": bytes(5000), "Current User": bytes(60)}), "unsupported"
    old_tree = {
        "PowerPoint Document": bytes(5000),
        "Current User": bytes(60),
        "PersistentStorage Directory": bytes(100),
    }
    yield "PowerPoint 95 with persistent storage", make_compound(old_tree), "unsupported"
    deep = b""
    for _ in range(200):
        deep = make_record(0xF003, deep, container=True)
    yield "two hundred levels", make_presentation([deep]), "too_complex"


@verdicts(FORMAT)
def test_one_damaged_picture_or_a_tenth_of_them_is_forgiven() -> Iterable[Row]:
    whole = png(shows=True)
    damaged = whole[:60] + bytes([whole[60] ^ 1]) + whole[61:]
    packed = zlib.compress(bytes(range(256)) * 8)
    drawing = make_record(0xF01A, bytes(16) + struct.pack("<28xLBB", len(packed), 0, 0xFE) + packed, instance=0x3D4)
    damaged_drawing = drawing[:-1] + b"?"
    noise = blip(encoded(noise_picture(100, 100, 128, 40), "PNG"))
    yield "whole picture", with_pictures(whole), "blank"
    yield "one damaged picture of two", with_pictures(damaged, whole), "blank"
    yield "two damaged pictures", with_pictures(damaged, damaged), "corrupt"
    yield "damaged only picture", with_pictures(damaged), "corrupt"
    yield "two damaged pictures of twenty", with_pictures(damaged, damaged, *[whole] * 18), "blank"
    yield "three damaged pictures of twenty", with_pictures(*[damaged] * 3, *[whole] * 17), "corrupt"
    yield "GIF stored as PNG", with_pictures(blip(encoded(chess_board(), "GIF"))), "blank"
    yield "whole metafile", with_pictures(drawing), "blank"
    yield "damaged metafile", with_pictures(damaged_drawing, whole), "blank"
    yield "damaged metafile and picture", with_pictures(damaged_drawing, damaged), "corrupt"
    yield "noise", with_pictures(noise, whole), "blank"
    yield "hole of zeros in noise", with_pictures(noise[:600] + bytes(700) + noise[1300:], whole), "corrupt"
    yield "zeros after the last picture", with_pictures(whole, bytes(3000)), "blank"
    yield "zeros between pictures", with_pictures(whole, bytes(400), whole), "corrupt"
    yield "other data", with_pictures(bytes(400)), "corrupt"


@verdicts(FORMAT)
def test_slide_is_blank_when_nothing_on_it_is_visible() -> Iterable[Row]:
    for case, shapes in {
        "nothing": [],
        "a text box without text": [make_text_box("")],
        "spaces": [make_text_box(" \u00a0\u200b\r")],
        "a placeholder without text": [make_text_box("", TITLE)],
        "the number of the slide": [make_text_box("7", NUMBER_OF_SLIDE)],
        "a shape without line and filling": [make_shape(properties=NO_LINE_AND_FILL)],
        "the background": [make_shape(flags=0xC00)],
        "a hidden shape": [make_shape(properties=[(HIDDEN, 0x20002)])],
    }.items():
        yield case, make_presentation(shapes), "blank"
    for case, shapes in {
        "a full stop": [make_text_box(".")],
        "a title": [make_text_box("x", TITLE)],
        "a shape": [make_shape()],
        "a filled shape": [make_shape(properties=[(FILL, 0x100010), (LINE, 0x80000)])],
        "an object of another program": [make_shape(properties=NO_LINE_AND_FILL, flags=0xA10)],
        "a missing picture": [make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 3)])],
        "a shape and an empty box": [make_shape(), make_text_box("")],
    }.items():
        yield case, make_presentation(shapes), "ok"
    shown = [make_shape(properties=[*NO_LINE_AND_FILL, (PICTURE, 1)])]
    yield "picture", make_presentation(shown, pictures=[png(shows=True)]), "ok"
    yield "blank picture", make_presentation(shown, pictures=[png(shows=False)]), "blank"
    yield "notes", make_presentation([], notes=[make_text_box("Say hello.")]), "ok"
    yield "empty notes", make_presentation([], notes=[make_text_box("")]), "blank"
    yield "outline", make_presentation([], outline=make_record(0x0FA8, b"A title")), "ok"
