"""Make Office packages from parts, and change or remove single parts."""

import io
import zipfile
from collections.abc import Mapping

from PIL import Image, ImageDraw

from tests.inspection.formats.zip_samples import archive


def parts_of(package: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(package)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def package_of(parts: Mapping[str, bytes]) -> bytes:
    return archive(*parts.items())


def with_part_changed(package: bytes, part: str, old: str, new: str) -> bytes:
    parts = parts_of(package)
    text = parts[part].decode()
    assert old in text
    return package_of(parts | {part: text.replace(old, new, 1).encode()})


def without_part(package: bytes, part: str) -> bytes:
    return package_of({name: content for name, content in parts_of(package).items() if name != part})


def picture(*, shows: bool, colour: str = "white", side: int = 200) -> io.BytesIO:
    image = Image.new("RGB", (side, side), colour)
    if shows:
        ImageDraw.Draw(image).ellipse((40, 40, 160, 160), fill="navy")
    file = io.BytesIO()
    image.save(file, "PNG")
    file.seek(0)
    return file
