"""Measure the CPU time of Sluice's own malware scan for a few kinds of files, in this process, without the sandbox."""

import io
import os
import random
import time
import zipfile
from collections.abc import Iterator

from PIL import Image

from sluice_inspect.threats.scan import preload, scan_source

_LARGE = 100_000_000


def files() -> Iterator[tuple[str, bytes, int]]:
    """Yield the name of each file, its content, and how often it is scanned."""
    source = random.Random(1)  # noqa: S311  (repeatable files, no secret)
    picture = io.BytesIO()
    Image.frombytes("RGB", (58, 58), source.randbytes(58 * 58 * 3)).save(picture, "PNG")
    yield "PNG", picture.getvalue(), 300
    yield "not packed", source.randbytes(_LARGE), 1
    for name, method in (("zip, stored", zipfile.ZIP_STORED), ("zip, deflated", zipfile.ZIP_DEFLATED)):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for number in range(200):
                archive.writestr(str(number), source.randbytes(_LARGE // 200) + bytes(_LARGE // 200 if method else 0))
        yield name, out.getvalue(), 1


def main() -> None:
    """Scan each file and print its CPU time."""
    preload()
    for name, data, times in files():
        fd = os.memfd_create("scanned")
        os.write(fd, data)
        began = time.process_time()
        for _ in range(times):
            scan_source(fd, "")
        print(f"{name}: {len(data)} bytes, {(time.process_time() - began) / times * 1000:.2f} ms of CPU")
        os.close(fd)


if __name__ == "__main__":
    main()
