"""Measure the processor time of the check and of the malware scan of large files, of up to 100 MB, in every group.

The files are made once, always the same, in the folder given. The bar is 5 s for any file and 2 s for the common ones.
"""

import argparse
import base64
import bz2
import gzip
import io
import json
import lzma
import os
import random
import resource
import sqlite3
import struct
import sys
import tarfile
import time
import wave
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
import py7zr
import zstandard
from PIL import Image
from pptx import Presentation

from sluice_inspect.child import jobs
from sluice_inspect.child.worker import memory_in_use
from sluice_inspect.formats import docx, xlsx
from sluice_inspect.formats.opendocument.format import ODS
from sluice_inspect.formats.parquet.sample import encode_page, encode_table
from sluice_inspect.sandbox.protocol import JobLimits

Pieces = Iterable[bytes]

BYTES: Final = 98_000_000
ANY_SECONDS, COMMON_SECONDS = 5.0, 2.0
WORDS: Final = b"The river rose in the night and the gate was shut until the water had gone down again".split()
NOISE: Final = random.Random(1).randbytes(1 << 20)  # noqa: S311  (repeatable files, no secret)
COLOURS: Final = np.random.default_rng(1)


def filled(unit: Callable[[int], bytes], head: bytes = b"", tail: bytes = b"", size: int = BYTES) -> Iterator[bytes]:
    """Yield the head, numbered units up to the size, and the tail."""
    yield head
    number = written = 0
    while written < size:
        block = b"".join(unit(number + each) for each in range(1000))
        number, written = number + 1000, written + len(block)
        yield block
    yield tail


def words(number: int, count: int = 12) -> bytes:
    """Return a sentence, the same for each number."""
    return b" ".join(WORDS[(number * 7 + each * each) % len(WORDS)] for each in range(count))


def noise(size: int) -> bytes:
    """Return bytes that do not pack."""
    return b"".join(NOISE[at * 31 :] + NOISE[: at * 31] for at in range(size // len(NOISE)))


def record(number: int) -> bytes:
    """Return one object of a list in JSON."""
    fields = {
        "id": number,
        "name": words(number, 4).decode(),
        "score": number / 7,
        "tags": ["a", "b", None],
        "on": True,
    }
    return json.dumps(fields).encode() + b",\n"


def mail() -> Iterator[bytes]:
    """Yield a mail with five attachments."""
    yield b"From: a@example.org\nSubject: x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=q\n\n"
    yield b"--q\nContent-Type: text/plain\n\nSee the files.\n"
    for number in range(5):
        yield b"--q\nContent-Type: application/octet-stream; name=%d.bin\n" % number
        yield b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(noise(14 << 20))
    yield b"--q--\n"


def picture(kind: str, width: int, height: int, image: Callable[[int, int], Image.Image], **options: object) -> Pieces:
    """Return one picture of this format."""
    out = io.BytesIO()
    image(width, height).save(out, kind, **options)
    return [out.getvalue()]


def noisy(width: int, height: int) -> Image.Image:
    """Return a picture of noise."""
    return Image.frombytes("RGB", (width, height), COLOURS.bytes(width * height * 3))


def photo(width: int, height: int) -> Image.Image:
    """Return soft shapes with a little grain."""
    shapes = Image.frombytes("RGB", (40, 30), COLOURS.bytes(3600)).resize((width, height), Image.Resampling.BICUBIC)
    grain = COLOURS.integers(0, 4, (height, width, 3), np.uint8)
    return Image.fromarray(np.asarray(shapes) // 2 + grain)


def scanned(width: int, height: int) -> Image.Image:
    """Return a page with lines of marks on grainy paper."""
    paper = COLOURS.integers(236, 246, (height, width), np.uint8)
    for top in range(200, height - 200, 60):
        paper[top : top + 30, 200 : width - 200][:, (np.arange(width - 400) // 9) % 3 == 0] = 40
    return Image.fromarray(paper)


def animation() -> Pieces:
    """Return 250 frames of noise."""
    frames = [Image.frombytes("P", (640, 480), noise(1 << 20)[at * 97 :][: 640 * 480]) for at in range(250)]
    for frame in frames:
        frame.putpalette(bytes(range(256)) * 3)
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=40, disposal=1)
    return [out.getvalue()]


def pdf(pages: Sequence[bytes], pictures: Sequence[tuple[int, int, str, bytes]] = ()) -> Iterator[bytes]:
    """Yield a PDF of these pages. The picture of the same number, JPEG or packed, is `/X` on its page."""
    count, at, places = len(pages), 0, []
    objects: list[bytes] = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (count, b"".join(b"%d 0 R " % (4 + each) for each in range(count))),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for each in range(count):
        drawn = b"/XObject<</X %d 0 R>>" % (4 + 2 * count + each) if each < len(pictures) else b""
        objects.append(
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents %d 0 R/Resources<</Font<</F 3 0 R>>%b>>>>"
            % (4 + count + each, drawn)
        )
    objects += [
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(content), content)
        for content in map(zlib.compress, pages)
    ]
    for width, height, colours, data in pictures:
        head = f"<</Type/XObject/Subtype/Image/Width {width}/Height {height}/BitsPerComponent 8/ColorSpace/{colours}"
        objects.append(b"%b/Filter/DCTDecode/Length %d>>stream\n%b\nendstream" % (head.encode(), len(data), data))
    yield b"%PDF-1.4\n"
    at = len(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(at)
        whole = b"%d 0 obj%b endobj\n" % (number, body)
        at += len(whole)
        yield whole
    yield b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % p for p in places)
    yield b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, at)


def page(number: int) -> bytes:
    """Return a page of forty lines."""
    lines = b"".join(b"(%b) Tj T*\n" % words(number + line) for line in range(40))
    return b"BT /F 11 Tf 60 780 Td 16 TL\n%bET\n" % lines


def pdf_of_pictures(count: int, width: int, height: int, image: Callable[[int, int], Image.Image]) -> Pieces:
    """Return a PDF whose pages are filled by a JPEG each."""
    content = b"".join(picture("JPEG", width, height, image, quality=92))
    colours = "DeviceGray" if image is scanned else "DeviceRGB"
    # Each has another comment at its end, so that none is a copy of another.
    pictures = [(width, height, colours, content[:-2] + b"\xff\xfe\0\6%04d\xff\xd9" % each) for each in range(count)]
    return pdf([b"595 0 0 842 0 0 cm /X Do"] * count, pictures)


def white_boxes() -> Pieces:
    """Return a PDF of 1,500,000 white rectangles."""
    boxes = b"".join(b"%d %d 9 9 re f\n" % (each % 590, each % 840) for each in range(1_500_000))
    return pdf([b"1 g\n" + boxes])


def package(sample: bytes, parts: Mapping[str, bytes]) -> Pieces:
    """Return the sample with these parts in it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(sample)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in dict.fromkeys([*old.namelist(), *parts]):
            new.writestr(name, parts.get(name) or old.read(name), compresslevel=0 if name == "mimetype" else 3)
    return [out.getvalue()]


def part(sample: bytes, name: str, element: bytes, unit: Callable[[int], bytes], count: int) -> bytes:
    """Return the part of the sample with these units in place of what is in the element."""
    start, end = b"<%b>" % element, b"</%b>" % element
    with zipfile.ZipFile(io.BytesIO(sample)) as archive:
        content = archive.read(name)
    units = b"".join(map(unit, range(count)))
    return content[: content.index(start) + len(start)] + units + content[content.index(end) :]


def sheet(cell: Callable[[int], bytes], parts: Mapping[str, bytes]) -> Pieces:
    """Return a workbook of a million rows."""

    def row(number: int) -> bytes:
        return b'<row r="%d">%b</row>' % (number + 1, cell(number + 1))

    sample = xlsx.FORMAT.sample()
    rows = part(sample, "xl/sheet1.xml", b"sheetData", row, 1_000_000)
    return package(sample, {"xl/sheet1.xml": rows, **parts})


def inline_cell(row: int) -> bytes:
    """Return the cells of a row with its text in it."""
    return b'<c r="A%d"><v>%d</v></c><c r="B%d" t="inlineStr"><is><t>%b</t></is></c>' % (row, row, row, words(row, 5))


def shared_cell(row: int) -> bytes:
    """Return the cells of a row whose texts are in the table of strings."""
    return b'<c r="A%d"><v>%d</v></c><c r="B%d" t="s"><v>%d</v></c><c r="C%d" t="s"><v>%d</v></c>' % (
        row, row / 3, row, row % 300_000, row, row % 977,
    )  # fmt: skip


def shared_strings() -> Mapping[str, bytes]:
    """Return the parts of a workbook with 300,000 strings."""
    namespace = b"http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = b"".join(b"<si><t>%b %d</t></si>" % (words(each, 4), each) for each in range(300_000))
    relation = b"http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    name = "xl/_rels/workbook.xml.rels"
    with zipfile.ZipFile(io.BytesIO(xlsx.FORMAT.sample())) as sample:
        relations = sample.read(name)
    added = b'<Relationship Id="rId9" Type="%b" Target="sharedStrings.xml"/></Relationships>' % relation
    return {
        name: relations.replace(b"</Relationships>", added),
        "xl/sharedStrings.xml": b'<sst xmlns="%b">%b</sst>' % (namespace, strings),
    }


def document() -> Pieces:
    """Return a DOCX of 80,000 paragraphs: 2,000 pages."""
    sample = docx.FORMAT.sample()

    def paragraph(number: int) -> bytes:
        return b'<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:r><w:rPr><w:b/></w:rPr><w:t>%b</w:t></w:r></w:p>' % (
            words(number, 15)
        )

    return package(sample, {"word/document.xml": part(sample, "word/document.xml", b"w:body", paragraph, 80_000)})


def table() -> Pieces:
    """Return an ODS of a million rows."""
    sample = ODS.sample()
    with zipfile.ZipFile(io.BytesIO(sample)) as archive:
        content = archive.read("content.xml")
    row = content[content.index(b"<table:table-row") : content.index(b"</table:table-row>") + 18]
    units = b"".join(row.replace(b"</text:p>", b" %d</text:p>" % each) for each in range(1_000_000))
    return package(sample, {"content.xml": content.replace(row, units)})


def slides() -> Pieces:
    """Return a PPTX of 40 slides with a noisy picture each."""
    show, out = Presentation(), io.BytesIO()
    for _ in range(40):
        image = b"".join(picture("PNG", 900, 900, noisy))
        show.slides.add_slide(show.slide_layouts[6]).shapes.add_picture(io.BytesIO(image), 0, 0)
    show.save(out)
    return [out.getvalue()]


def zipped(count: int, member: Callable[[int], bytes], method: int) -> Pieces:
    """Return a ZIP of numbered members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for each in range(count):
            archive.writestr(f"{each % 100}/{each}.txt", member(each))
    return [out.getvalue()]


def tarred() -> Pieces:
    """Return a TAR of 10,000 members."""
    out, content = io.BytesIO(), noise(1 << 20)
    with tarfile.open(fileobj=out, mode="w") as archive:
        for each in range(10_000):
            entry = tarfile.TarInfo(f"{each}.bin")
            entry.size = 9000
            archive.addfile(entry, io.BytesIO(content[each:]))
    return [out.getvalue()]


def seven(unpacked: bytes) -> Pieces:
    """Return a 7z with one file."""
    out = io.BytesIO()
    with py7zr.SevenZipFile(out, "w", filters=[{"id": py7zr.FILTER_LZMA2, "preset": 0}]) as archive:
        archive.writestr(unpacked, "data.bin")
    return [out.getvalue()]


def half_packed(size: int = BYTES) -> bytes:
    """Return bytes that pack to half their size."""
    return COLOURS.integers(0, 16, size, np.uint8).tobytes()


def recording(muxer: str, codec: str, frames: Callable[[], Iterator[av.AudioFrame | av.VideoFrame]]) -> Pieces:
    """Return sound or video: the packets of some seconds, as often as there is room."""
    out, first = io.BytesIO(), next(frames())
    stream: Any  # of sound or of pictures
    with av.open(out, "w", format=muxer) as container:
        if isinstance(first, av.VideoFrame):
            stream = container.add_stream(codec, rate=25, width=first.width, height=first.height, pix_fmt="yuv420p")
            stream.codec_context.bit_rate = 8_000_000
            stream.codec_context.options = {"preset": "ultrafast"} if codec.startswith("libx") else {}
        else:
            stream = container.add_stream(codec, rate=48_000, layout="stereo")
            stream.codec_context.bit_rate = 320_000
        packets = [packet for frame in (*frames(), None) for packet in stream.encode(frame)]
        length = sum(packet.duration or 0 for packet in packets) or len(packets)
        # FLAC has a checksum of all samples, so that its packets are not repeated.
        times = 1 if codec == "flac" else max(1, BYTES // sum(packet.size for packet in packets))
        for turn in range(times):
            for packet in packets:
                if times == 1:
                    container.mux(packet)
                    continue
                copy = av.Packet(bytes(packet))
                copy.stream, copy.time_base, copy.duration = stream, packet.time_base, packet.duration
                copy.pts, copy.dts = (packet.pts or 0) + turn * length, (packet.dts or 0) + turn * length
                copy.is_keyframe = packet.is_keyframe
                container.mux(copy)
    return [out.getvalue()]


def film(width: int = 1280, height: int = 720, seconds: int = 8) -> Callable[[], Iterator[av.VideoFrame]]:
    """Return what yields frames of a moving photo."""

    def frames() -> Iterator[av.VideoFrame]:
        still = np.asarray(photo(width * 2, height))
        for each in range(seconds * 25):
            moved = np.ascontiguousarray(still[:, each * 4 % width :][:, :width])
            frame = av.VideoFrame.from_ndarray(moved, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = each, Fraction(1, 25)
            yield frame

    return frames


def music(layout: str, minutes: int = 1) -> Callable[[], Iterator[av.AudioFrame]]:
    """Return what yields noise and tones in samples of this layout."""

    def frames() -> Iterator[av.AudioFrame]:
        for each in range(48 * 60 * minutes):
            tone = np.sin((np.arange(1000) + each * 1000) / 48_000 * 2 * np.pi * 440) * 9000
            samples = (tone + COLOURS.integers(-3000, 3000, (2, 1000))).astype(np.int16)
            if layout == "fltp":
                frame = av.AudioFrame.from_ndarray((samples / 32768).astype(np.float32), format="fltp", layout="stereo")
            else:
                flat = samples.T.reshape(1, -1) if layout == "s16" else samples
                frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(flat), format=layout, layout="stereo")
            frame.sample_rate, frame.pts, frame.time_base = 48_000, each * 1000, Fraction(1, 48_000)
            yield frame

    return frames


def wav() -> Pieces:
    """Return ten minutes of sound."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((2, 2, 48_000, 0, "NONE", ""))
        file.writeframes(noise(BYTES))
    return [out.getvalue()]


def database(path: Path) -> Pieces:
    """Return an SQLite database with an index."""
    connection = sqlite3.connect(path)
    connection.execute("create table facts (id integer primary key, name text, data blob)")
    rows = ((words(each, 4).decode(), NOISE[each % 1_000_000 :][:60]) for each in range(800_000))
    connection.executemany("insert into facts (name, data) values (?, ?)", rows)
    connection.execute("create index names on facts (name)")
    connection.commit()
    connection.close()
    return []


def parquet() -> Pieces:
    """Return a table of one column of texts."""
    texts = [words(each, 6) for each in range(20_000)]
    data = b"".join(struct.pack("<L", len(text)) + text for text in texts)
    count = BYTES // len(data)
    pages = encode_page(data, len(texts)) * count
    return [encode_table(pages, len(texts) * count, len(texts) * count, leaf={1: 6})]


def every_file() -> dict[str, tuple[bool, Callable[[Path], Pieces]]]:
    """Return each file by its name: whether it is a common one, and what makes it."""
    svg, rtf = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 900">', rb"{\rtf1\ansi "
    text = b"".join(filled(lambda each: words(each) + b".\n"))
    made: dict[str, tuple[bool, Callable[[Path], Pieces]]] = {
        "objects.json": (True, lambda _: filled(record, b"[", b"1]")),
        "deep.json": (False, lambda _: filled(lambda _: b"[" * 150 + b"1" + b"]" * 150 + b",", b"[", b"1]")),
        "strings.json": (
            False,
            lambda _: filled(lambda each: b'"%b\\n%b",' % (words(each, 500), words(each, 300)), b"[", b"1]"),
        ),
        "numbers.json": (False, lambda _: filled(lambda each: b"%d.%d," % (each, each), b"[", b"1]")),
        "rows.csv": (True, lambda _: filled(lambda each: b"%d,%b,%d.5\n" % (each, words(each, 3), each), b"id,b,c\n")),
        "words.txt": (True, lambda _: [text]),
        "words.md": (
            True,
            lambda _: filled(lambda each: b"## %b\n\n* **%b** [a](b)\n" % (words(each, 3), words(each))),
        ),
        "page.html": (
            True,
            lambda _: filled(
                lambda each: b'<p class="a"><a href="/%d">%b</a></p>\n' % (each, words(each)), b"<html><body>"
            ),
        ),
        "records.xml": (
            True,
            lambda _: filled(lambda each: b'<a b="%d"><c>%b</c></a>\n' % (each, words(each, 5)), b"<r>", b"</r>"),
        ),
        "paths.svg": (
            False,
            lambda _: filled(lambda each: b'<path d="M%d 0L9 %d"/>\n' % (each % 900, each % 777), svg, b"</svg>"),
        ),
        "attachments.eml": (True, lambda _: mail()),
        "words.rtf": (False, lambda _: filled(lambda each: rb"{\b %b}\par " % words(each), rtf, b"}")),
        "picture.rtf": (False, lambda _: [rtf, rb"{\pict\pngblip ", noise(BYTES // 2).hex().encode(), b"}}"]),
        "noise.png": (False, lambda _: picture("PNG", 5700, 5700, noisy, compress_level=1)),
        "photo.png": (True, lambda _: picture("PNG", 8660, 5774, photo, compress_level=1)),
        "photo.jpg": (True, lambda _: picture("JPEG", 8660, 5774, photo, quality=95)),
        "noise.jpg": (False, lambda _: picture("JPEG", 8660, 5774, noisy, quality=88)),
        "noise.tiff": (False, lambda _: picture("TIFF", 5700, 5700, noisy)),
        "photo_lzw.tiff": (False, lambda _: picture("TIFF", 6000, 4800, photo, compression="tiff_lzw")),
        "photo.webp": (True, lambda _: picture("WEBP", 8660, 5774, photo, quality=90, method=0)),
        "animation.gif": (False, lambda _: animation()),
        "noise.bmp": (False, lambda _: picture("BMP", 5700, 5700, noisy)),
        "photo.jp2": (False, lambda _: picture("JPEG2000", 4000, 3000, photo)),
        "boxes.pdf": (False, lambda _: white_boxes()),
        "pages.pdf": (True, lambda _: pdf([page(each) for each in range(3000)])),
        "photos.pdf": (True, lambda _: pdf_of_pictures(100, 2000, 1500, photo)),
        "scans.pdf": (True, lambda _: pdf_of_pictures(40, 2480, 3508, scanned)),
        "inline.xlsx": (False, lambda _: sheet(inline_cell, {})),
        "shared.xlsx": (True, lambda _: sheet(shared_cell, shared_strings())),
        "pages.docx": (True, lambda _: document()),
        "pictures.pptx": (True, lambda _: slides()),
        "rows.ods": (False, lambda _: table()),
        "members.zip": (True, lambda _: zipped(10_000, lambda each: words(each, 600), zipfile.ZIP_DEFLATED)),
        "stored.zip": (True, lambda _: zipped(10, lambda _: noise(BYTES // 10), zipfile.ZIP_STORED)),
        "deflated.zip": (True, lambda _: zipped(10, lambda _: half_packed(BYTES // 6), zipfile.ZIP_DEFLATED)),
        "members.tar": (True, lambda _: tarred()),
        "half.tar.gz": (True, lambda _: [gzip.compress(b"".join(tarred()), 1)]),
        "half.gz": (True, lambda _: [gzip.compress(half_packed(), 1)]),
        "half.7z": (False, lambda _: seven(half_packed(BYTES // 2))),
        "half.zst": (False, lambda _: [zstandard.compress(half_packed())]),
        "half.bz2": (False, lambda _: [bz2.compress(half_packed(BYTES // 4))]),
        "half.xz": (False, lambda _: [lzma.compress(half_packed(BYTES // 4), preset=0)]),
        "sound.wav": (True, lambda _: wav()),
        "sound.flac": (False, lambda _: recording("flac", "flac", music("s16", 11))),
        "sound.mp3": (True, lambda _: recording("mp3", "libmp3lame", music("s16p"))),
        "sound.ogg": (False, lambda _: recording("ogg", "libopus", music("s16"))),
        "sound.aac": (False, lambda _: recording("adts", "aac", music("fltp"))),
        "film.mp4": (True, lambda _: recording("mp4", "libx264", film())),
        "small_film.mp4": (False, lambda _: recording("mp4", "libx264", film(320, 240))),
        "film.mkv": (False, lambda _: recording("matroska", "libx264", film())),
        "film.avi": (False, lambda _: recording("avi", "mpeg4", film())),
        "film.webm": (False, lambda _: recording("webm", "libvpx", film(640, 360, 4))),
        "rows.sqlite": (False, database),
        "texts.parquet": (False, lambda _: parquet()),
    }
    return made


def make(path: Path, pieces: Callable[[Path], Pieces]) -> None:
    """Make the file, unless it is there."""
    if path.exists():
        return
    unfinished = path.with_name(f"unfinished.{path.name}")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("ab") as file:
        file.writelines(pieces(unfinished))
    unfinished.rename(path)


def measure(path: Path, job: str) -> tuple[float, str]:
    """Run the job on the file in a child with the memory limit of the sandbox; return its CPU seconds and result."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        memory = memory_in_use()[0] + JobLimits().memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        began = time.process_time()
        try:
            with path.open("rb") as file:
                result = jobs.JOBS[job](file.fileno(), path.name)
            found = str(result.get("finding") or result.get("outcome") or result.get("threat") or "")
            partly = dict(result.get("measures") or {}).get("partially_checked") or result.get("why")  # type: ignore[call-overload]
            said = f"{found}{' (partly)' if partly else ''} {result.get('detail') or ''}".strip()
        except BaseException as error:  # noqa: BLE001  (the table says what went wrong)
            said = repr(error)
        os.write(writer, f"{time.process_time() - began} {said}"[:200].encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as reply:
        seconds, _, said = reply.read().partition(" ")
    os.waitpid(child, 0)
    return float(seconds or "nan"), said


def main() -> int:
    """Make the files, measure them, and print those that cost most first; return 1 if one is above the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names that hold this text")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    chosen = {name: each for name, each in every_file().items() if options.only in name}
    for name, (_, pieces) in chosen.items():
        try:
            make(options.folder / name, pieces)
        except Exception as error:  # noqa: BLE001  (the other files are measured all the same)
            print(f"{name} cannot be made here: {error!r}", file=sys.stderr)
    jobs.preload()
    rows = []
    for name, (is_common, _) in chosen.items():
        path = options.folder / name
        if path.exists():
            (check, said), (scan, _) = measure(path, "check"), measure(path, "scan")
            rows.append((check, scan, name, path.stat().st_size / 1e6, is_common, said))
            print(f"{name}: {check:.2f}", file=sys.stderr)
    print("check CPU s | scan CPU s | MB | file | bar | found")
    above = 0
    for check, scan, name, size, is_common, said in sorted(rows, reverse=True):
        bar = COMMON_SECONDS if is_common else ANY_SECONDS
        above += check > bar
        print(f"{check:.2f} | {scan:.2f} | {size:.0f} | {name} | {'above ' if check > bar else ''}{bar:.0f} | {said}")
    return int(above > 0)


if __name__ == "__main__":
    sys.exit(main())
