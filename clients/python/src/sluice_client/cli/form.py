"""Files of the command line: which ones are meant, and how one is sent, streamed from disk and counted."""

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sluice_client.cli.http import HttpClient, Response

STDIN: Final = "-"
_CHUNK: Final = 262_144


class FormFile:
    """One open file under the name that the service gets. `sent` is called with the number of bytes of each piece."""

    def __init__(self, name: str, file: IO[bytes], sent: Callable[[int], None] = lambda _amount: None) -> None:
        self._name = name
        self._file = file
        self._sent = sent

    def send(
        self, http: "HttpClient", path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> "Response":
        """Send the rest of the file with the fields in front of it, and return the response."""
        boundary = os.urandom(16).hex()
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, value in fields.items()
        ]
        # As browsers escape it (HTML, section "multipart form data").
        name = self._name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        parts.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        )
        before, after = "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()
        begin = self._file.tell()
        size = self._file.seek(0, os.SEEK_END) - begin
        self._file.seek(begin)
        return http.request(
            "POST",
            path,
            headers={**(headers or {}), "Content-Type": f"multipart/form-data; boundary={boundary}"},
            content=self._body(before, size, after),
            length=len(before) + size + len(after),
        )

    def _body(self, before: bytes, size: int, after: bytes) -> Iterator[bytes]:
        yield before
        yield from exactly(self._file, size, self._sent)
        yield after


def exactly(file: IO[bytes], size: int, sent: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file. Raise `OSError` with its name if they cannot be read, or are not there."""
    left = size
    while left:
        try:
            piece = file.read(min(left, _CHUNK))
        except OSError as fault:
            raise OSError(fault.errno, fault.strerror, _name_of(file)) from fault
        if not piece:
            raise OSError(None, "it became shorter while it was read", _name_of(file))
        yield piece
        left -= len(piece)
        sent(len(piece))


def _name_of(file: IO[bytes]) -> str:
    return str(getattr(file, "name", STDIN))


def files_in(paths: Sequence[Path]) -> list[Path]:
    """Return each path that is no folder, and every file below those that are, sorted by name.

    A folder that cannot be entered is returned itself, so that it is reported as unreadable and not skipped.
    """
    found: list[Path] = []
    for path in paths:
        found.extend(_below(path) if path.is_dir() else [path])
    return found


def _below(folder: Path) -> Iterator[Path]:
    closed: list[Path] = []
    # Links to files are followed; links to folders are not, since they may form a cycle.
    for parent, folders, names in os.walk(folder, onerror=lambda fault: closed.append(Path(fault.filename))):
        folders.sort()
        yield from (path for name in sorted(names) if (path := Path(parent) / name).is_file())
    yield from closed


@contextmanager
def opened_file(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file, and yield it with its size; what tells no size, as standard input, is copied first.

    Raise `OSError`.
    """
    if str(path) == STDIN:
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            copy.seek(0)
            yield copy, os.fstat(copy.fileno()).st_size
        return
    # O_NONBLOCK: opening a pipe without a writer would block forever.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(None, "it is no file", str(path))
        if not found.st_size and file.read(1):  # as files of the kernel
            raise OSError(None, "it tells no size: send it as standard input", str(path))
        file.seek(0)
        yield file, found.st_size
