"""Previews of texts, office documents and archives: the words that the page has, and how they are laid out."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import EmailMessage

import docx
import openpyxl
import py7zr
import pytest
from PIL import Image, features

from sluice_inspect.formats import epub, msg
from sluice_inspect.formats.doc.format import make_word
from sluice_inspect.formats.opendocument.format import ODS, ODT
from sluice_inspect.formats.ppt.format import make_presentation, make_text_box
from sluice_inspect.formats.xls.format import make_label, make_number, make_record, make_workbook
from sluice_inspect.previews.preview import draw_preview
from sluice_inspect.previews.sheet import draw_sheet, font_files
from sluice_inspect.report import Unsupported
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats import pptx_samples
from tests.required import missing
from tests.rows import every_row


def _drawn(content: bytes, name: str, kind: str = "text") -> Image.Image:
    with MemoryBacked(content) as source:
        drawing = draw_preview(source, name, 1200)
    assert drawing.kind == kind
    return drawing.picture


def _word() -> bytes:
    document = docx.Document()
    document.add_paragraph("A letter\tto you")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def _workbook() -> bytes:
    workbook = openpyxl.Workbook()
    first = workbook.active
    first.title = "Prices"
    first.append(["Item", "Price"])
    first.append(["Tea", 2.5])
    workbook.create_sheet("Hidden").sheet_state = "hidden"
    file = io.BytesIO()
    workbook.save(file)
    return file.getvalue()


def _mail() -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "a@example.com", "b@example.com", "Grüße"
    mail.set_content("Hello,\nworld")
    mail.add_alternative("<p>Hello</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="bill.pdf")
    return mail.as_bytes()


_RICH = rb"{\rtf1{\fonttbl{\f0 Arial;}}{\info{\author Secret}}Hello \u8364?\par{\v hidden}b\'e9{\*\unknown x}\tab c}"
_PAGE = b"<html><head><title>Title</title><style>p{}</style></head><body><p>One <b>bold</b>\n word<p>Two<script>alert(1)</script></body></html>"


def _texts() -> Iterator[tuple[str, bytes, str]]:
    yield "a.txt", "Caf\xe9".encode("latin-1"), "Caf\xe9"
    yield "a.txt", "Caf\xe9\r\nline".encode("utf-16"), "Caf\xe9\nline"
    yield "no extension", b"#!/bin/sh\necho hello\n", "#!/bin/sh\necho hello"
    yield "a.csv", b"a,b\n1,2\n", "a,b\n1,2"
    yield "a.txt", "user\u202egpj.exe\x07 \u2067end\u200b".encode(), "user?gpj.exe? ?end?"
    yield (
        "a.svg",
        b'<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>',
        ('<svg xmlns="http://www.w3.org/2000/svg"><script>1</script></svg>'),
    )
    yield "a.html", _PAGE, "Title\nOne bold word\nTwo"
    yield "a.html", b"<p><script>1</script></p>", "<p><script>1</script></p>"
    yield "a.rtf", _RICH, "Hello \u20ac\nb\xe9  c"
    yield (
        "a.eml",
        _mail(),
        ("From: a@example.com\nTo: b@example.com\nSubject: Gr\xfc\xdfe\nAttached: bill.pdf\n\nHello,\nworld"),
    )
    yield "a.docx", _word(), "A letter    to you\nleft    right"
    yield "a.xlsx", _workbook(), "Prices\nItem    Price\nTea 2.5"
    yield (
        "a.pptx",
        pptx_samples.presentation(pptx_samples.text_box("First"), pptx_samples.text_box("Second")),
        ("First\n\nSecond"),
    )
    yield "a.odt", ODT.sample(), "Sluice"
    yield "a.ods", ODS.sample(), "1"
    yield "a.epub", epub.FORMAT.sample(), "A sluice is a gate."
    yield "a.msg", msg.make_message({0x0037: "A subject", 0x1000: "A body"}), "Subject: A subject\n\nA body"
    yield "a.doc", make_word("A letter\x13 PAGE \x142\x15\rto you\r"), "A letter2\nto you"
    cells = make_label(0, 0, "Tea") + make_number(0, 1, 2.5)
    short = make_record(0x027E, (1).to_bytes(2, "little") + bytes(4) + (250 << 2 | 3).to_bytes(4, "little"))
    yield "a.xls", make_workbook([cells + short]), "Tea 2.5\n2.5"
    yield "a.ppt", make_presentation([make_text_box("First")]), "First"


def test_page_has_the_words_of_the_text() -> None:
    with every_row() as row:
        for name, content, words in _texts():
            with row((name, words)):
                assert _drawn(content, name).tobytes() == draw_sheet(words, 1200).tobytes()


def _tar(format_: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format_) as archive:
        for name, size in (("folder/a.txt", 3), ("n" * 150, 2_000_000)):
            member = tarfile.TarInfo(name)
            member.size = size
            archive.addfile(member, io.BytesIO(bytes(size)))
    return file.getvalue()


def _zip(members: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(members):
            archive.writestr(f"{number}.txt", bytes(number))
    return file.getvalue()


def _7z() -> bytes:
    file = io.BytesIO()
    with py7zr.SevenZipFile(file, "w") as archive:
        archive.writestr(b"abc", "a.txt")
    return file.getvalue()


def _archives() -> Iterator[tuple[str, bytes, str]]:
    listed = f"folder/a.txt  (3 bytes)\n{'n' * 150}  (2 MB)"
    yield "a.tar", _tar(tarfile.GNU_FORMAT), listed
    yield "a.tar", _tar(tarfile.PAX_FORMAT), listed
    yield "a.tar.gz", gzip.compress(_tar(tarfile.GNU_FORMAT)), listed
    yield "notes.txt.gz", gzip.compress(b"notes"), "notes.txt"
    yield "a.zip", _zip(2), "2 members\n\n0.txt  (0 bytes)\n1.txt  (1 byte)"
    yield "a.7z", _7z(), "1 member\n\na.txt  (3 bytes)"


def test_page_of_an_archive_lists_its_members() -> None:
    with every_row() as row:
        for name, content, words in _archives():
            with row((name, words)):
                assert _drawn(content, name, "members").tobytes() == draw_sheet(words, 1200).tobytes()
    assert _drawn(_zip(3000), "a.zip", "members").size == (848, 1200)


def test_text_is_wrapped_within_the_margins_and_ends_with_the_page() -> None:
    for text in ("word " * 5000, "w" * 20_000, "short\n" * 500):
        page = draw_sheet(text, 1200).convert("L").point(lambda level: 255 - level)
        box = page.getbbox()
        assert box is not None
        assert box[0] >= 58
        assert box[1] >= 58
        assert box[2] <= 848 - 56
        assert 1100 < box[3] <= 1142


def test_letters_beyond_latin_are_drawn_in_fonts_of_the_system_and_hebrew_from_the_right() -> None:
    if not font_files() or not features.check_feature("fribidi"):
        missing("a font with Cyrillic letters, or FriBidi,", apt="fonts-dejavu-core libfribidi0")
    pages = [
        draw_sheet(text, 1200).convert("L").point(lambda level: 255 - level) for text in ("сумма", "шрифт", "שלום")
    ]
    assert pages[0].tobytes() != pages[1].tobytes()  # as boxes, they were equal
    for page, (left, right) in zip(pages, ((58, 150), (58, 150), (700, 848 - 56)), strict=True):
        box = page.getbbox()
        assert box is not None
        assert left <= box[0] < box[2] <= right


def test_bytes_of_no_known_format_and_documents_without_words_have_no_preview() -> None:
    shapes = pptx_samples.presentation(pptx_samples.shape())
    for name, content in (("a.unknown", bytes(range(256)) * 10), ("a.pptx", shapes)):
        with MemoryBacked(content) as source, pytest.raises(Unsupported):
            draw_preview(source, name, 200)
