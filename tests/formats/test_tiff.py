import lzma
import random
import time
import zlib
from collections.abc import Callable, Mapping

import pytest
import zstandard
from PIL import Image

from sluice.formats.budget import Deadline
from sluice.formats.check import check_file
from sluice.formats.images.raster import sample_picture
from sluice.formats.images.tiff_lzw import unpacked_size
from sluice.formats.kinds.tiff import KIND
from sluice.formats.verdict import Finding, Limits, Measure, Outcome
from tests.formats.judging import Judged, corpus, needs_corpus, source_of
from tests.formats.judging import judge as judge_kind
from tests.formats.tiffs import Values, board, grey, saved, written

ROWS = bytes(range(64)) * 64
STRICT = ["tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd", "lzma", "group4"]
OTHERS = [None, "group3"]


def judge(data: bytes, limits: Limits | None = None) -> Judged:
    return judge_kind(KIND, data, limits)


def picture(compression: str | None) -> Image.Image:
    grain = random.Random(7)
    image = Image.frombytes(
        "L", (96, 96), bytes(min(255, (x * y) // 36 + grain.randrange(8)) for y in range(96) for x in range(96))
    )
    return image.convert("1") if compression in {"group3", "group4"} else image


@pytest.mark.parametrize("compression", [*STRICT, *OTHERS])
@pytest.mark.parametrize("big", [False, True])
def test_a_tiff_is_sound_and_not_blank(compression: str | None, *, big: bool) -> None:
    judged = judge(saved(picture(compression), compression=compression, big=big))
    assert judged.recognised
    assert judged.outcome is Outcome.OK, judged.detail
    assert judged.blank is None


@pytest.mark.parametrize("compression", [*STRICT, *OTHERS])
@pytest.mark.parametrize("part", range(1, 20, 3))
def test_a_cut_tiff_is_corrupt(compression: str | None, part: int) -> None:
    data = saved(picture(compression), compression=compression)
    assert judge(data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("compression", "least"), {**dict.fromkeys(STRICT, 15), "tiff_lzw": 7, "jpeg": 9, "zstd": 0, "packbits": 0}.items()
)
def test_damage_in_packed_pixels_is_found(compression: str, least: int) -> None:
    data = saved(picture(compression), compression=compression)
    changed = zeroed = 0
    for place in range(20):
        at = 300 + place * (len(data) - 900) // 20
        other = data[:at] + bytes([data[at] ^ 0x55, data[at + 1] ^ 0xAA, data[at + 2] ^ 0x55]) + data[at + 3 :]
        changed += judge(other).outcome is Outcome.CORRUPT
        zeroed += judge(data[:at] + bytes(600) + data[at + 600 :]).outcome is Outcome.CORRUPT
    assert changed >= least
    assert zeroed >= 15


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_page_of_either_byte_order_is_read(order: str) -> None:
    assert judge(written(grey(64, 64), data=ROWS, order=order)).outcome is Outcome.OK


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(grey(64, 200), id="more rows than there are"),
        pytest.param(grey(64, 64, offsets=[2]), id="pixels in the header"),
        pytest.param(grey(64, 64, offsets=[8], t278=32), id="one strip of two"),
        pytest.param(grey(64, 0), id="no height"),
        pytest.param(grey(64, 64, compression=8, lengths=[100]), id="no deflated data"),
        pytest.param(grey(64, 64, compression=5, lengths=[100]), id="no LZW data"),
        pytest.param({256: (4, [64]), 257: (4, [64])}, id="no pixels"),
    ],
)
def test_a_page_that_cannot_be_is_corrupt(page: Values) -> None:
    data = written(page, data=ROWS[::-1])
    assert judge(data).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("method", "pack"), [(8, zlib.compress), (34925, lzma.compress), (50000, zstandard.ZstdCompressor().compress)]
)
def test_a_strip_that_unpacks_to_too_little_is_corrupt(method: int, pack: Callable[[bytes], bytes]) -> None:
    whole, short = pack(ROWS), pack(ROWS[:-64])
    assert judge(written(grey(64, 64, compression=method, lengths=[len(whole)]), data=whole)).outcome is Outcome.OK
    assert judge(written(grey(64, 64, compression=method, lengths=[len(short)]), data=short)).outcome is Outcome.CORRUPT


def test_a_wrong_length_of_unpacked_pixels_is_no_damage() -> None:
    assert judge(written(grey(64, 64, lengths=[9]), data=ROWS)).outcome is Outcome.OK
    assert judge(written(grey(64, 64, lengths=[10**9]), data=ROWS)).outcome is Outcome.OK


def test_pieces_that_a_map_leaves_out_are_no_damage() -> None:
    judged = judge(written(grey(64, 64, offsets=[8, 0], lengths=[2048, 0], t278=32), data=ROWS))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


def test_a_chain_that_loops_ends_where_it_began() -> None:
    assert judge(written(grey(64, 64), grey(64, 64), data=ROWS, loop=True)).outcome is Outcome.OK


def test_every_page_is_judged() -> None:
    assert judge(written(grey(64, 64), grey(64, 200), data=ROWS)).outcome is Outcome.CORRUPT
    data = saved(board("L"), board("L"))
    assert judge(data[:-100]).outcome is Outcome.CORRUPT


def test_pages_that_share_their_pixels_are_drawn_once_and_many_only_up_to_a_budget() -> None:
    side = 4096
    packed = zlib.compress(bytes(side * side), 9)
    same = grey(side, side, compression=8, offsets=[8], lengths=[len(packed)])
    measures, blank, seconds = looked_at(written(*[same] * 200, data=packed))
    assert (measures["frames"], "partially_checked" in measures, seconds < 1) == (200, False, True)
    assert blank is not None
    other = ({**same, 532: (4, [number])} for number in range(200))
    measures, blank, seconds = looked_at(written(*other, data=packed))
    assert (measures["partially_checked"], blank, seconds < 2) == (True, None, True)


def looked_at(data: bytes) -> tuple[Mapping[str, Measure], str | None, float]:
    """Answer what is measured, why it is blank, and the processor time."""
    began = time.process_time()
    with source_of(data) as source:
        return KIND.check(source, Limits()), KIND.blank(source, Limits()), time.process_time() - began


def test_a_picture_seen_below_a_page_is_looked_at_as_a_page_too() -> None:
    rows = bytes(4096) + board("L").tobytes()
    plain, shown = grey(64, 64), grey(64, 64, offsets=[8 + 4096])
    second = int.from_bytes(written(plain, shown, data=rows)[8 + len(rows) + 2 + 12 * 7 :][:4], "little")
    judged = judge(written({**plain, 330: (4, [second + 12])}, shown, data=rows))
    assert (judged.outcome, judged.blank) == (Outcome.OK, None)


def test_a_value_behind_the_end_of_the_file_is_corrupt() -> None:
    data = written({**grey(64, 64), 700: (1, [32] * 100)}, data=ROWS)
    assert judge(data).outcome is Outcome.OK
    assert judge(data[:-1]).outcome is Outcome.CORRUPT


def test_smaller_pictures_below_a_page_are_judged() -> None:
    below = written(grey(64, 64), grey(64, 64), data=ROWS)
    second = int.from_bytes(below[8 + 4096 + 2 + 12 * 7 :][:4], "little")
    assert judge(written({**grey(64, 64), 330: (4, [second])}, grey(64, 200), data=ROWS)).outcome is Outcome.CORRUPT


def test_a_packing_without_a_decoder_is_unsupported() -> None:
    assert judge(written(grey(64, 64, compression=34676, lengths=[100]), data=ROWS)).outcome is Outcome.UNSUPPORTED


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    assert judge(written(grey(60_000, 60_000), data=ROWS)).finding is Finding.IMAGE_TOO_LARGE
    pages = [grey(64, 64)] * 4
    assert judge(written(*pages, data=ROWS), Limits(max_frames=3)).outcome is Outcome.TOO_COMPLEX


def test_a_tiff_is_blank_when_no_page_shows_anything() -> None:
    white = Image.new("L", (64, 64), 255)
    assert judge(saved(white, white)).blank
    assert judge(saved(white, board("L"))).blank is None


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"])
def test_pictures_of_every_mode_are_looked_at(mode: str) -> None:
    deep = mode in {"I;16", "I", "F"}
    shown = Image.new(mode, (64, 64)) if deep else board(mode)
    if deep:
        shown.paste(60_000, (8, 8, 40, 40))
    assert judge(saved(shown)).blank is None
    assert judge(saved(Image.new(mode, (64, 64)))).blank


def test_samples_of_12_bits_in_16_are_seen_in_their_range() -> None:
    rows = b"".join((4000 if 16 <= x < 48 and 16 <= y < 48 else 0).to_bytes(2, "big") for y in range(64) for x in range(64))
    packed = bytes(byte for at in range(0, len(rows), 4) for byte in _packed_12(rows[at : at + 4]))
    assert judge(written({**grey(64, 64), 258: (3, [12])}, data=packed)).blank is None


def _packed_12(pair: bytes) -> bytes:
    return (int.from_bytes(pair[:2], "big") << 12 | int.from_bytes(pair[2:], "big")).to_bytes(3, "big")


def test_lzw_codes_are_followed_at_every_width() -> None:
    noise = random.Random(3).randbytes(40_000)
    image = Image.frombytes("L", (200, 200), noise)
    assert judge(saved(image, compression="tiff_lzw")).outcome is Outcome.OK


def test_lzw_without_an_end_does_not_run_for_ever() -> None:
    size, ended = unpacked_size(b"\x80\x00" + bytes(100_000), 1000, Deadline(5))
    assert size > 1000
    assert not ended
    assert unpacked_size(b"\x80" * 500_000, 10**9, Deadline(0.2))[0] >= 0


def test_what_is_behind_the_picture_is_looked_at() -> None:
    data = saved(board())
    with source_of(data + b"<?php system($_GET['c']); ?>") as source:
        measures = KIND.check(source, Limits())
    assert measures["trailing_bytes"] == 28


@pytest.mark.parametrize("name", ["a.tif", "a.tiff"])
def test_other_content_named_tiff_is_a_mismatch(name: str) -> None:
    with source_of(sample_picture("PNG")) as source:
        assert check_file(source._fd, filename=name).finding is Finding.TYPE_MISMATCH


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("tiff", "valid", "not_blank") if not judge(path.read_bytes()).passes] == []


@needs_corpus
def test_the_blank_files_of_the_corpus_are_found() -> None:
    assert [path.name for path in corpus("tiff", "blank") if not judge(path.read_bytes()).blank] == []
    assert [path.name for path in corpus("tiff", "not_blank") if judge(path.read_bytes()).blank] == []
