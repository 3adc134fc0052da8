"""What widely used readers make of an archive: the names and links in it that lead outside."""

import io
import posixpath
import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

# In a line of a listing: an absolute name, or a step up.
_OUTSIDE: Final = re.compile(r"(?:^| )/|(?:^|[ /])\.\.(?:/| |$)")
_NOT_A_FILE: Final = re.compile(r"[lbc][-rwxsStT]{9}\+? ")
_SECONDS: Final = 5
_UNIX_LINK: Final = re.compile(r"\bl[rwxsStT-]{9}\b")
# What a program prints for each entry: with links and their targets where it can. It reads the file, or for `-` a pipe,
# in which it cannot seek to the directory.
TAR_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "tar": ("tar", "-P", "-tv", "--numeric-owner", "-f"),
    "tar --incremental": ("tar", "-P", "-tvG", "--numeric-owner", "-f"),
    "bsdtar": ("bsdtar", "-P", "-tvf"),
    "7z": ("7z", "l", "-slt", "-ba", "-ttar"),
    "busybox": ("busybox", "tar", "-tvf"),
}
ZIP_PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "unzip": ("unzip", "-Z"),
    "bsdtar": ("bsdtar", "-P", "-tvf"),
    "bsdtar -": ("bsdtar", "-P", "-tvf", "-"),
    "7z": ("7z", "l", "-slt", "-ba", "-tzip"),
    "busybox": ("busybox", "unzip", "-l"),
}
DEBIAN_PACKAGES: Final = {
    "tar": "tar", "bsdtar": "libarchive-tools", "7z": "p7zip-full", "unzip": "unzip", "busybox": "busybox",
}  # fmt: skip


def is_outside(name: str) -> bool:
    """Whether a POSIX system would write a name outside of the folder."""
    return name.startswith("/") or ".." in posixpath.normpath(name).split("/")


def outside_in_tarfile(data: bytes) -> list[str]:
    """Return what Python's tarfile reads outside, up to the first error."""
    found = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                if is_outside(member.name) or member.issym() or member.ischr() or member.isblk():
                    found.append(f"{member.type!r} {member.name}")
                elif member.islnk() and is_outside(member.linkname):
                    found.append(f"{member.name} link to {member.linkname}")
    except Exception:  # noqa: BLE001  (tarfile fails with many errors; what it read before counts)
        pass
    return found


def outside_in_zipfile(data: bytes) -> list[str]:
    """Return what Python's zipfile reads outside."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for info in archive.infolist() for name in (info.filename, info.orig_filename)]
            return [name for name in names if is_outside(name)]
    except Exception:  # noqa: BLE001  (zipfile fails with many errors)
        return []


def outside_in_listing(command: tuple[str, ...], file: Path) -> list[str]:
    """Return the lines in the listing of a program that show a link, a device or a name that leads outside."""
    is_piped = command[-1] == "-"
    try:
        printed = subprocess.run(
            command if is_piped else [*command, file.name],
            input=file.read_bytes() if is_piped else b"",
            cwd=file.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as hung:  # libarchive 3.6 loops on some archives
        printed = hung.stdout or b""
    lines = printed.decode("utf-8", "replace").splitlines()
    judged: Callable[[str], bool] = _is_outside_in_7z if command[0] == "7z" else _is_outside_in_lines
    return [line for line in lines if judged(line)]


def _is_outside_in_lines(line: str) -> bool:
    return bool(_NOT_A_FILE.match(line) or _OUTSIDE.search(line))


def _is_outside_in_7z(line: str) -> bool:
    key, _, value = line.partition(" = ")
    if key == "Attributes":
        return bool(_UNIX_LINK.search(value))
    return (key == "Symbolic Link" and bool(value)) or (key in {"Path", "Hard Link"} and is_outside(value))


def installed(programs: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return those of the programs that are on PATH."""
    return {name: command for name, command in programs.items() if shutil.which(command[0])}
