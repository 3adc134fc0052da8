"""TIFF: integrity, limits and blankness."""

import lzma
import random
import time
import zlib
from collections.abc import Iterable, Mapping
from functools import partial

import zstandard
from PIL import Image

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.tiff.format import FORMAT
from sluice_inspect.formats.tiff.lzw import unpacked_size
from sluice_inspect.images.raster import sample_picture
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits, Measure, Outcome
from tests.inspection.formats.examining import Row, examine_bytes, source_of, verdicts
from tests.inspection.formats.tiff_samples import chess_board, grey_page, saved, tiff_of_pages
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
ROWS = bytes(range(64)) * 64
STRICT = ["tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd", "lzma", "group4"]
OTHERS = [None, "group3"]
PAGE = grey_page(64, 64)


def packed_page(data: bytes, method: int) -> bytes:
    return tiff_of_pages(grey_page(64, 64, compression=method, lengths=[len(data)]), data=data)


def picture(compression: str | None) -> Image.Image:
    grain = random.Random(7)
    levels = bytes(min(255, (x * y) // 36 + grain.randrange(8)) for y in range(96) for x in range(96))
    return Image.frombytes("L", (96, 96), levels).convert("1" if compression in {"group3", "group4"} else "L")


@verdicts(FORMAT)
def test_every_compression_is_sound_and_corrupt_when_it_is_cut() -> Iterable[Row]:
    for compression in (*STRICT, *OTHERS):
        for big in (False, True):
            yield f"{compression} {big}", saved(picture(compression), compression=compression, big=big), "ok"
        data = saved(picture(compression), compression=compression)
        for part in range(1, 20, 3):
            yield f"{compression} cut {part}", data[: len(data) * part // 20], "corrupt"
    for method, pack in ((8, zlib.compress), (34925, lzma.compress), (50000, zstandard.ZstdCompressor().compress)):
        yield f"strip {method}", packed_page(pack(ROWS), method), "ok"
        yield f"strip {method} that unpacks to too little", packed_page(pack(ROWS[:-64]), method), "corrupt"
    image = Image.frombytes("L", (200, 200), random.Random(3).randbytes(40_000))
    yield "LZW codes of every width", saved(image, compression="tiff_lzw"), "ok"


@each_row(
    ("compression", "minimum"),
    {**dict.fromkeys(STRICT, 15), "tiff_lzw": 7, "jpeg": 9, "zstd": 0, "packbits": 0}.items(),
)
def test_damage_in_compressed_pixels_is_corrupt(compression: str, minimum: int) -> None:
    data = saved(picture(compression), compression=compression)
    changed = zeroed = 0
    for place in range(20):
        at = 300 + place * (len(data) - 900) // 20
        other = data[:at] + bytes([data[at] ^ 0x55, data[at + 1] ^ 0xAA, data[at + 2] ^ 0x55]) + data[at + 3 :]
        changed += examine(other).outcome is Outcome.CORRUPT
        zeroed += examine(data[:at] + bytes(600) + data[at + 600 :]).outcome is Outcome.CORRUPT
    assert changed >= minimum
    assert zeroed >= 15


def lossless_jpeg(side: int) -> bytes:
    """Return an even grey picture by the lossless process (ITU-T T.81, annex H), which most decoders lack."""
    table = b"\xff\xc4\0\x14\0\1" + bytes(15) + b"\0"
    frame = b"\xff\xc3\0\x0b\x08" + 2 * side.to_bytes(2, "big") + b"\1\1\x11\0"
    scan = b"\xff\xda\0\x08\1\1\0\1\0\0"
    return b"\xff\xd8" + table + frame + scan + bytes(side * side // 8) + b"\xff\xd9"


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    yield "lossless JPEG, which is never corrupt", packed_page(lossless_jpeg(64), method=7), "blank"
    even = Image.new("L", (64, 64), 128)
    for case, plane in (("ok", chess_board("L")), ("blank", Image.new("L", (64, 64), 90))):
        yield f"{case} by its colours of LAB", saved(Image.merge("LAB", (plane, even, even))), case
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"):
        deep = mode in {"I;16", "I", "F"}
        shown = Image.new(mode, (64, 64)) if deep else chess_board(mode)
        if deep:
            shown.paste(60_000, (8, 8, 40, 40))
        yield f"mode {mode}", saved(shown), "ok"
        yield f"empty, mode {mode}", saved(Image.new(mode, (64, 64))), "blank"
    levels = [4000 if 16 <= x < 48 and 16 <= y < 48 else 0 for y in range(64) for x in range(64)]
    packed = b"".join((levels[at] << 12 | levels[at + 1]).to_bytes(3, "big") for at in range(0, len(levels), 2))
    yield "twelve bits", tiff_of_pages({**PAGE, 258: (3, [12])}, data=packed), "ok"
    for order in "<>":
        coloured = {**grey_page(64, 64, t262=3), 320: (3, [*range(256)] * 3)}
        yield f"order {order}", tiff_of_pages(PAGE, data=ROWS, order=order), "ok"
        yield f"colours in order {order}", tiff_of_pages(coloured, data=ROWS, order=order), "ok"
    for case, page in {
        "more rows than data": grey_page(64, 200),
        "pixels in the header": grey_page(64, 64, offsets=[2]),
        "one strip of two": grey_page(64, 64, offsets=[8], t278=32),
        "no height": grey_page(64, 0),
        "no deflated data": grey_page(64, 64, compression=8, lengths=[100]),
        "no LZW data": grey_page(64, 64, compression=5, lengths=[100]),
        "no pixels": {256: (4, [64]), 257: (4, [64])},
    }.items():
        yield case, tiff_of_pages(page, data=ROWS[::-1]), "corrupt"
    sparse = grey_page(64, 64, offsets=[8, 0], lengths=[2048, 0], t278=32)
    yield "strip that a sparse page omits", tiff_of_pages(sparse, data=ROWS), "ok"
    chroma = {**grey_page(64, 64, compression=8, offsets=[8] * 3, t262=6), 277: (3, [3]), 284: (3, [2])}
    for case, across, down in (("halved", 2, 1), ("quartered", 2, 2)):
        parts = [zlib.compress(ROWS[:size]) for size in (4096, *[4096 // across // down] * 2)]
        begins = [8 + len(b"".join(parts[:number])) for number in range(3)]
        for stated, verdict in (([across, down], "ok"), ([1, 1], "corrupt")):
            tags = {273: (4, begins), 279: (4, [len(part) for part in parts]), 530: (3, stated)}
            case_stated = f"{case} colours in planes of their own, stated as {stated}"
            yield case_stated, tiff_of_pages(chroma | tags, data=b"".join(parts)), verdict
    yield "too many pixels to decode", tiff_of_pages(grey_page(60_000, 60_000), data=ROWS), "image_too_large"


@verdicts(FORMAT)
def test_directories_of_pages_are_followed() -> Iterable[Row]:
    white, board = Image.new("L", (64, 64), 255), chess_board("L")
    yield "white pages", saved(white, white), "blank"
    yield "one page that shows something", saved(white, board), "ok"
    yield "too many pages", tiff_of_pages(*[PAGE] * 4, data=ROWS), "too_complex", Limits(max_frames=3)
    yield "length too small", tiff_of_pages(grey_page(64, 64, lengths=[9]), data=ROWS), "ok"
    yield "length too large", tiff_of_pages(grey_page(64, 64, lengths=[10**9]), data=ROWS), "ok"
    yield "page chain that loops", tiff_of_pages(PAGE, PAGE, data=ROWS, loop=True), "ok"
    yield "damaged second page", tiff_of_pages(PAGE, grey_page(64, 200), data=ROWS), "corrupt"
    yield "truncated second page", saved(board, board)[:-100], "corrupt"
    empty = tiff_of_pages(PAGE, {}, data=ROWS)
    yield "empty second directory at the end", empty, "ok"
    yield "empty second directory before other bytes", empty + b"made by a scanner", "ok"
    yield "second directory in zeros", empty + bytes(100), "corrupt"
    yield "empty first directory", tiff_of_pages({}, data=ROWS), "corrupt"
    stale = tiff_of_pages({**PAGE, 34665: (4, [10**6])}, data=ROWS)
    yield "metadata that an editor left out, and not its address", stale, "ok"
    stale_and_cut = tiff_of_pages({**PAGE, 34665: (4, [10**6]), 700: (1, [32] * 9)}, data=ROWS)
    yield "metadata cut off behind other bytes", stale + bytes(8), "corrupt"
    yield "metadata cut off with a value", stale_and_cut[:-1], "corrupt"
    late = tiff_of_pages({**PAGE, 700: (1, [32] * 100)}, data=ROWS)
    yield "value at the end of the file", late, "ok"
    yield "value past the end of the file", late[:-1], "corrupt"
    second = int.from_bytes(tiff_of_pages(PAGE, PAGE, data=ROWS)[8 + 4096 + 2 + 12 * 7 :][:4], "little")
    below = tiff_of_pages({**PAGE, 330: (4, [second])}, grey_page(64, 200), data=ROWS)
    yield "damaged picture below a page", below, "corrupt"
    rows, shown = bytes(4096) + board.tobytes(), grey_page(64, 64, offsets=[8 + 4096])
    second = int.from_bytes(tiff_of_pages(PAGE, shown, data=rows)[8 + len(rows) + 2 + 12 * 7 :][:4], "little")
    also_page = tiff_of_pages({**PAGE, 330: (4, [second + 12])}, shown, data=rows)
    yield "picture below a page that is a page, too", also_page, "ok"
    unknown = tiff_of_pages(grey_page(64, 64, compression=34676, lengths=[100]), data=ROWS)
    yield "compression without a decoder", unknown, "unsupported"


def timed_examination(data: bytes) -> tuple[Mapping[str, Measure], str | None, float]:
    """Return the measures, the reason why the file is blank, and the processor time."""
    began = time.process_time()
    with source_of(data) as source:
        examination = FORMAT.examine(source, Limits())
        return examination.measures, examination.blank(), time.process_time() - began


def test_shared_pixels_are_drawn_once_and_pages_only_up_to_a_budget() -> None:
    side = 4096
    packed = zlib.compress(bytes(side * side), 9)
    same = grey_page(side, side, compression=8, offsets=[8], lengths=[len(packed)])
    measures, blank, seconds = timed_examination(tiff_of_pages(*[same] * 200, data=packed))
    assert (measures["frames"], "partially_checked" in measures, seconds < 1) == (200, False, True)
    assert blank is not None
    other = ({**same, 532: (4, [number])} for number in range(200))
    measures, blank, seconds = timed_examination(tiff_of_pages(*other, data=packed))
    assert (measures["partially_checked"], blank, seconds < 2) == (True, None, True)


def test_endless_lzw_data_ends_at_the_limit() -> None:
    size, ended = unpacked_size(b"\x80\x00" + bytes(100_000), 1000, Deadline(5))
    assert (size > 1000, ended) == (True, False)
    assert unpacked_size(b"\x80" * 500_000, 10**9, Deadline(0.2))[0] >= 0


def test_trailing_bytes_are_measured() -> None:
    with source_of(saved(chess_board()) + b"<?php system($_GET['c']); ?>") as source:
        assert FORMAT.examine(source, Limits()).measures["trailing_bytes"] == 28


@each_row("name", ["a.tif", "a.tiff"])
def test_other_content_named_tiff_is_a_mismatch(name: str) -> None:
    with source_of(sample_picture("PNG")) as source:
        assert inspect_file(source._fd, filename=name).finding is Finding.TYPE_MISMATCH
