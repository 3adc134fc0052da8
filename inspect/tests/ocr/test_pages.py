"""Which pages are read by OCR, how what Tesseract returns becomes a text, and what is found of an installation."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from PIL import Image

from sluice_inspect.budget import Deadline, shared_time
from sluice_inspect.document_text.matching import _EXTENT
from sluice_inspect.document_text.reading import read_text
from sluice_inspect.ocr.languages import find_installed, packages
from sluice_inspect.ocr.pages import ReadPages
from sluice_inspect.ocr.tesseract import Recognised, Tesseract, joined, lines_of
from sluice_inspect.report import Limits
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats.pdf_samples import pdf, text

BOX = "9 9 99 99 re f"


class Engine:
    """Reads “upright” where the dark half of a picture is above, and nothing in time once `after` pages were read."""

    def __init__(self, after: int = 99) -> None:
        self.sizes: list[tuple[int, int]] = []
        self._after = after

    def read(self, page: Image.Image, _dpi: int, _deadline: Deadline) -> Recognised | None:
        self.sizes.append(page.size)
        upper, lower = page.getpixel((0, 0)), page.getpixel((0, page.height - 1))
        is_upright = cast("int", upper) <= cast("int", lower)
        found = Recognised("upright " * 9, 9, 95) if is_upright else Recognised("junk " * 9, 9, 30)
        return found if len(self.sizes) <= self._after else None


def read(content: bytes, name: str, engine: Engine) -> tuple[str, ReadPages]:
    pages = ReadPages(cast("Tesseract", engine))
    with MemoryBacked(content) as source:
        return read_text(source, name, replace(_EXTENT, pictures=pages), Limits()), pages


def saved(picture: Image.Image, plugin: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, plugin, **options)
    return file.getvalue()


def test_only_pages_without_words_of_their_own_are_read_and_no_more_than_ten() -> None:
    found, pages = read(pdf(text("one two three four five six seven eight nine ten") + BOX, "", BOX), "a.pdf", Engine())
    assert (found.count("upright"), "ten" in found, pages.pages, pages.is_cut) == (9, True, 1, False)
    found, pages = read(pdf(*[text("Scan 7") + BOX] * 12), "a.pdf", Engine())
    assert (found.count("upright"), "Scan" in found.splitlines()[0], pages.pages, pages.is_cut) == (90, False, 10, True)


def test_pages_are_read_until_the_time_is_over() -> None:
    found, pages = read(pdf(*[BOX] * 5), "a.pdf", Engine(after=3))
    assert (found.count("upright"), pages.is_cut) == (27, True)
    with shared_time(-1):
        found, pages = read(pdf(BOX), "a.pdf", Engine())
    assert (found.strip(), pages.pages, pages.is_cut) == ("", 0, True)


def test_every_page_of_a_tiff_is_read_and_a_page_upside_down_is_turned() -> None:
    page = Image.new("L", (60, 40))
    page.paste(255, (0, 20, 60, 40))
    turned = page.transpose(Image.Transpose.ROTATE_180)
    found, pages = read(saved(page, "TIFF", save_all=True, append_images=[turned]), "a.tiff", Engine())
    assert (found.count("upright"), "junk" in found, pages.pages) == (18, False, 2)


def test_small_pictures_are_enlarged_and_large_ones_reduced() -> None:
    engine = Engine()
    for size in ((600, 800), (3000, 4000)):
        read(saved(Image.new("L", size, 9), "PNG"), "a.png", engine)
    assert engine.sizes == [(1200, 1600), (1800, 2400)]


def test_words_of_a_line_that_goes_on_are_joined_and_doubtful_ones_of_a_doubtful_page_left_out() -> None:
    rows = ("5 1 1 1 1 1 x x x x 95 Rechnungs-", "5 1 1 1 2 1 x x x x 96 nummer", "5 1 1 1 2 2 x x x x 12 |~",
            "4 1 1 1 3 0 x x x x -1 ", "5 1 1 1 4 1 x x x x 90 請求", "5 1 1 1 4 2 x x x x 90 書", "5 1 1 1 4 3 x x x x 90 No.")  # fmt: skip
    table = "\n".join(row.replace(" ", "\t") for row in rows)
    assert joined(lines_of(table, 40)) == "Rechnungs\ufffe\nnummer\n請求書 No."
    assert "|~" in joined(lines_of(table, 80))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("usr/lib/x86_64-linux-gnu/libtesseract.so.5", *(
        f"usr/share/tesseract-ocr/5/tessdata/{name}.traineddata" for name in ("eng", "chi_tra", "osd")
    )):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_languages_are_those_whose_data_is_installed_beside_the_library(root: Path) -> None:
    installed = find_installed(root)
    assert installed is not None
    assert installed.languages == {"en", "zh"}
    assert installed.names(["zh", "de", "en"]) == ("chi_tra", "eng")
    assert packages(["zh", "de"]) == ("tesseract-ocr-chi-sim", "tesseract-ocr-deu")
    next(root.glob("usr/lib/*/*")).unlink()
    assert find_installed(root) is None
