"""Packings for the tests of the threat rules, each made of bytes in memory. The test virus is put together at run time."""

import io
import os
import tarfile
import zipfile
from collections.abc import Mapping

from sluice.threats.budget import Budget
from sluice.threats.scan import scan_source

EICAR = b"$".join(
    [rb"X5O!P%@AP[4\PZX54(P^)7CC)7}", b"-".join([b"EICAR", b"STANDARD", b"ANTIVIRUS", b"TEST", b"FILE!"]), b"H+H*"],
)


def scanned(data: bytes, filename: str = "", budget: Budget | None = None) -> dict[str, object]:
    """Run the scan job over `data`."""
    fd = os.memfd_create("scanned")
    try:
        os.write(fd, data)
        return scan_source(fd, filename, budget=budget or Budget())
    finally:
        os.close(fd)


def verdict(answer: Mapping[str, object]) -> dict[str, object]:
    """Answer what the scan job decides, without the facts beside it."""
    return {name: answer[name] for name in ("threat", "complete", "why", "signatures", "encrypted")}


def threat_in(data: bytes, filename: str = "") -> object:
    """Answer the name of the threat that the scan job finds in `data`."""
    return scanned(data, filename)["threat"]


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Answer a zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def streamed_zip(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Answer a zip archive as a program writes it that cannot seek: sizes follow the bytes."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
            self.written += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return bytes(pipe.written)


def tarred(members: Mapping[str, bytes], mode: str = "w", tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """Answer a tar archive; `mode` `w:gz`, `w:bz2` or `w:xz` compresses it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tar_format) as archive:  # type: ignore[call-overload]  # mode is one of several literals
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
