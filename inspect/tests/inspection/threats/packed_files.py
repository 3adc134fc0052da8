"""Scan bytes in memory and pack them into archives. The EICAR test file is assembled at run time."""

import io
import os
import tarfile
import zipfile
from collections.abc import Mapping

from sluice_inspect.threats.budget import ScanBudget
from sluice_inspect.threats.scan import scan_source
from tests.inspection.formats.zip_samples import archive

EICAR = b"$".join(
    [rb"X5O!P%@AP[4\PZX54(P^)7CC)7}", b"-".join([b"EICAR", b"STANDARD", b"ANTIVIRUS", b"TEST", b"FILE!"]), b"H+H*"]
)


def scan_bytes(data: bytes, filename: str = "", budget: ScanBudget | None = None) -> dict[str, object]:
    """Scan `data` and return the unpack report."""
    fd = os.memfd_create("scanned")
    try:
        os.write(fd, data)
        return scan_source(fd, filename, budget=budget or ScanBudget())
    finally:
        os.close(fd)


def verdict_of(report: Mapping[str, object]) -> dict[str, object]:
    """Return what the scan decides, without the other fields of its report."""
    return {name: report[name] for name in ("threat", "complete", "why", "signatures", "encrypted")}


def threat_in(data: bytes, filename: str = "") -> object:
    """Return the name of the threat that the scan finds in `data`."""
    return scan_bytes(data, filename)["threat"]


def mark_encrypted(data: bytes) -> bytes:
    """Mark the first member of a zip archive as encrypted."""
    changed = bytearray(data)
    changed[6] |= 1
    changed[changed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return archive(*members.items(), method=method)


def streamed_zip(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip archive written to a pipe, so that the sizes follow the data."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.written = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
            self.written += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", method) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return bytes(pipe.written)


def tarred(members: Mapping[str, bytes], mode: str = "w", tar_format: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar archive; the modes `w:gz`, `w:bz2` and `w:xz` compress it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tar_format) as opened:  # type: ignore[call-overload]  # a literal
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
    return out.getvalue()


def ar_member(name: bytes, data: bytes, size: int | None = None) -> bytes:
    """Return a member of an ar archive, which states its size or another one."""
    header = name.ljust(16) + b"0".ljust(12) + b"0     0     100644  "
    return header + b"%-10d`\n" % (len(data) if size is None else size) + data + b"\n" * (len(data) % 2)
