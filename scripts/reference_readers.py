"""The readers that `scripts/differential_files.py` compares with: each opens a file whole, or fails.

Readers are libraries and programs that read a format without our code. Those that are not installed are left out.
"""

import codecs
import email
import email.policy
import io
import json
import os
import shutil
import sqlite3
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final
from xml.parsers import expat

SECONDS: Final = 20
"""A program that takes longer has not opened the file. For libraries it is twice as long."""
_PAGES: Final = 50
"""Pages of a document, frames of a picture: the rest is not read."""


class NotOpened(Exception):
    """The reader did not fail, and found nothing that it could show."""


@dataclass(frozen=True, slots=True)
class Reader:
    """One reader: `needs` is the module or the program that it is made of."""

    name: str
    needs: str
    formats: frozenset[str]
    read: Callable[[Path], None]
    is_slow: bool = False
    """It takes seconds for a file, and so reads only those that we refuse."""

    @property
    def is_installed(self) -> bool:
        """Whether it can be used here."""
        return shutil.which(self.needs) is not None or find_spec(self.needs) is not None


def _pillow(path: Path) -> None:
    from PIL import Image  # noqa: PLC0415

    with Image.open(path) as picture:
        for number in range(min(getattr(picture, "n_frames", 1), _PAGES)):
            picture.seek(number)
            picture.load()


def _vips(path: Path) -> None:
    import_module("pyvips").Image.new_from_file(str(path), access="sequential", fail_on="truncated").avg()


def _tifffile(path: Path) -> None:
    with import_module("tifffile").TiffFile(path) as file:
        for page in file.pages[:_PAGES]:
            page.asarray()


def _heif(path: Path) -> None:
    pictures = list(import_module("pillow_heif").open_heif(path, convert_hdr_to_8bit=False))
    for picture in pictures:
        picture.load()
    _numbers(len(pictures))


def _imagecodecs(path: Path) -> None:
    import_module("imagecodecs").imread(str(path))


def _pdfium(path: Path) -> None:
    with closing(import_module("pypdfium2").PdfDocument(path)) as document:
        for number in _numbers(len(document)):
            document[number].render(scale=0.3)


def _qpdf(path: Path) -> None:
    with import_module("pikepdf").open(path) as document:
        for number in _numbers(len(document.pages)):
            import_module("pikepdf").parse_content_stream(document.pages[number])


def _mupdf(path: Path) -> None:
    with import_module("pymupdf").open(path) as document:
        for number in _numbers(document.page_count):
            document[number].get_pixmap(dpi=20)


def _numbers(pages: int) -> range:
    if pages == 0:
        raise NotOpened("no page or picture")
    return range(min(pages, _PAGES))


def _zipfile(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():
            raise NotOpened(damaged)


def _tarfile(path: Path) -> None:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                _drain(archive.extractfile(member))


def _compressed(module: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        with import_module(module).open(path) as file:
            _drain(file)

    return read


def _drain(file: IO[bytes] | None) -> None:
    while file is not None and file.read(1 << 20):
        pass


def _sevenzip(path: Path) -> None:
    with import_module("py7zr").SevenZipFile(path) as archive:
        if damaged := archive.testzip():
            raise NotOpened(damaged)


def _olefile(path: Path) -> None:
    with import_module("olefile").OleFileIO(path, raise_defects=40) as file:
        streams = file.listdir()
        for stream in streams:
            _drain(file.openstream(stream))
    if not streams:
        raise NotOpened("no stream")


def _xlrd(path: Path) -> None:
    import_module("xlrd").open_workbook(path, logfile=io.StringIO())


def _docx(path: Path) -> None:
    for paragraph in import_module("docx").Document(str(path)).paragraphs:
        str(paragraph.text)


def _openpyxl(path: Path) -> None:
    import_module("openpyxl").load_workbook(path, read_only=False)


def _pptx(path: Path) -> None:
    for slide in import_module("pptx").Presentation(str(path)).slides:
        len(slide.shapes)


def _opendocument(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        import_module("lxml.etree").fromstring(archive.read("content.xml"))


def _office(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        profile = f"-env:UserInstallation=file://{tempfile.gettempdir()}/differential-office-{os.getppid()}"
        _run("soffice", "--headless", "--norestore", profile, "--convert-to", "pdf", "--outdir", folder, str(path))
        if not list(Path(folder).iterdir()):
            raise NotOpened("nothing converted")


def _av(path: Path) -> None:
    with import_module("av").open(str(path)) as container:
        shown = [*container.streams.audio, *container.streams.video]
        if not shown or sum(1 for _ in container.decode(shown)) == 0:
            raise NotOpened("no frame")


def _fonttools(path: Path) -> None:
    library = import_module("fontTools.ttLib")
    fonts = library.TTCollection(path) if path.suffix in {".ttc", ".otc"} else [library.TTFont(path)]
    for font in fonts:
        for tag in ("head", "maxp", "cmap", "name"):
            _ = font[tag]


def _freetype(path: Path) -> None:
    from PIL import ImageFont  # noqa: PLC0415

    ImageFont.truetype(path, 20).getmask("Abc")


def _lxml(path: Path) -> None:
    library = import_module("lxml.etree")
    library.parse(path, library.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))


def _expat(path: Path) -> None:
    expat.ParserCreate().Parse(path.read_bytes(), True)


def _json(path: Path) -> None:
    json.loads(path.read_bytes())


def _jiter(path: Path) -> None:
    import_module("pydantic_core").from_json(path.read_bytes())


def _yaml(path: Path) -> None:
    for _ in import_module("yaml").parse(path.read_bytes(), Loader=import_module("yaml").SafeLoader):
        pass


def _text(path: Path) -> None:
    data = path.read_bytes()
    data.decode("utf-16" if data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)) else "utf-8")


def _email(path: Path) -> None:
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    if not {"from", "to", "subject", "date", "received", "content-type"} & {name.lower() for name in message}:
        raise NotOpened("no header")


def _sqlite(path: Path) -> None:
    with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in tables:
            quoted = table.replace('"', '""')
            database.execute(f'SELECT * FROM "{quoted}"').fetchall()  # noqa: S608  (a name cannot be a parameter)


def _pyarrow(path: Path) -> None:
    import_module("pyarrow.parquet").read_table(path, page_checksum_verification=True)


def _program(*command: str) -> Callable[[Path], None]:
    return lambda path: _run(*command, str(path))


def _run(*command: str) -> None:
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=True)


def _formats(names: str) -> frozenset[str]:
    return frozenset(names.split())


_PICTURES: Final = "png jpeg gif bmp tiff webp jp2 j2k heic avif"
_OFFICE: Final = "docx xlsx pptx odt ods odp"
_ZIPPED: Final = f"zip epub {_OFFICE}"
_COMPRESSED: Final = "gz bz2 xz zst lz4"
READERS: Final = (
    Reader("Pillow", "PIL", _formats(_PICTURES), _pillow),
    Reader("libvips", "pyvips", _formats(f"{_PICTURES} svg"), _vips),
    Reader("tifffile", "tifffile", _formats("tiff"), _tifffile),
    Reader("libheif", "pillow_heif", _formats("heic avif"), _heif),
    Reader("imagecodecs", "imagecodecs", _formats("jpeg webp jp2 j2k avif heic"), _imagecodecs),
    Reader("PDFium", "pypdfium2", _formats("pdf"), _pdfium),
    Reader("qpdf", "pikepdf", _formats("pdf"), _qpdf),
    Reader("MuPDF", "pymupdf", _formats("pdf epub svg"), _mupdf),
    Reader("Poppler", "pdftotext", _formats("pdf"), lambda path: _run("pdftotext", str(path), "/dev/null")),
    Reader("zipfile", "zipfile", _formats(_ZIPPED), _zipfile),
    Reader("unzip", "unzip", _formats(_ZIPPED), _program("unzip", "-tqq", "-P", "")),
    Reader("7z", "7z", _formats(f"{_ZIPPED} 7z rar tar {_COMPRESSED}"), _program("7z", "t", "-p")),
    Reader("bsdtar", "bsdtar", _formats(f"{_ZIPPED} 7z rar tar"), lambda path: _run("bsdtar", "-xOf", str(path))),
    Reader("tarfile", "tarfile", _formats("tar"), _tarfile),
    Reader("tar", "tar", _formats("tar"), _program("tar", "-tf")),
    Reader("py7zr", "py7zr", _formats("7z"), _sevenzip),
    Reader("gzip", "gzip", _formats("gz"), lambda path: _run("sh", "-c", 'gzip -dc < "$0" > /dev/null', str(path))),
    Reader("Python's gzip", "gzip", _formats("gz"), _compressed("gzip")),
    Reader("Python's bz2", "bz2", _formats("bz2"), _compressed("bz2")),
    Reader("Python's lzma", "lzma", _formats("xz"), _compressed("lzma")),
    Reader("zstandard", "zstandard", _formats("zst"), _compressed("zstandard")),
    Reader("lz4", "lz4", _formats("lz4"), _compressed("lz4.frame")),
    Reader("olefile", "olefile", _formats("doc xls ppt msg"), _olefile),
    Reader("xlrd", "xlrd", _formats("xls"), _xlrd),
    Reader("python-docx", "docx", _formats("docx"), _docx),
    Reader("openpyxl", "openpyxl", _formats("xlsx"), _openpyxl),
    Reader("python-pptx", "pptx", _formats("pptx"), _pptx),
    Reader("content.xml", "lxml", _formats("odt ods odp"), _opendocument),
    Reader("LibreOffice", "soffice", _formats(f"doc xls ppt rtf {_OFFICE}"), _office, is_slow=True),
    Reader("FFmpeg", "av", _formats("mp3 aac flac ogg opus wav aiff mp4 m4a mov mkv webm avi"), _av),
    Reader("fontTools", "fontTools", _formats("ttf otf woff woff2"), _fonttools),
    Reader("FreeType", "PIL", _formats("ttf otf woff woff2"), _freetype),
    Reader("libxml2", "lxml", _formats("xml svg"), _lxml),
    Reader("expat", "xml", _formats("xml svg"), _expat),
    Reader("json", "json", _formats("json"), _json),
    Reader("jiter", "pydantic_core", _formats("json"), _jiter),
    Reader("PyYAML", "yaml", _formats("yaml"), _yaml),
    Reader("UTF-8 and UTF-16", "codecs", _formats("text md html csv"), _text),
    Reader("email", "email", _formats("eml msg"), _email),
    Reader("SQLite", "sqlite3", _formats("sqlite"), _sqlite),
    Reader("Arrow", "pyarrow", _formats("parquet"), _pyarrow),
)
