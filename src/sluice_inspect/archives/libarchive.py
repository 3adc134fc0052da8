"""Reads archives with the system's libarchive, where there is one: the only reader at hand of RAR data and of some methods of 7z.

Needs the shared library alone, no Python package. It reads memory, opens no file and starts no thread. Its names are not used: who
calls it has judged names, links and sizes by headers of his own reading.
"""

import contextlib
import ctypes
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from sluice.formats.archives.containers import RandomAccess, Visitor
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Encrypted, Judgement, Measure, Unsupported

_NAMES: Final = ("libarchive.so.13", "libarchive.13.dylib", "libarchive.dylib")
_OK, _END, _WARN = 0, 1, -20
_FORMATS: Final = ("rar", "rar5", "7zip")

_ENCRYPTED: Final = re.compile(r"ncrypt|assphrase|Crypto")
_LACKING: Final = re.compile(
    r"nsupported(?! block| filter type)|not (?:currently )?supported|No support|navailable|emory|llocat|codec|onvert|Internal"
)
"""Words in libarchive's reasons, of which those on block headers and filter types are said of damaged RAR data only."""
_DAMAGED: Final = re.compile(
    r"CRC|hecksum|runcated|orrupt|nvalid|alformed|Bad|amaged|nexpected|rror|ailed|Premature|exceed|block|filter type|tree|Prefix|pointer|symbol|too many"
)
"""What says neither is not held against the file."""


def _load() -> ctypes.CDLL | None:
    for name in _NAMES:
        with contextlib.suppress(OSError):
            return _declared(ctypes.CDLL(name))
    return None


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, arguments, answer in (
        ("archive_read_new", (), pointer),
        ("archive_read_free", (pointer,), ctypes.c_int),
        ("archive_read_open_memory", (pointer, pointer, size), ctypes.c_int),
        ("archive_read_next_header", (pointer, ctypes.POINTER(pointer)), ctypes.c_int),
        (
            "archive_read_data_block",
            (pointer, ctypes.POINTER(pointer), ctypes.POINTER(size), ctypes.POINTER(ctypes.c_int64)),
            ctypes.c_int,
        ),
        ("archive_error_string", (pointer,), ctypes.c_char_p),
        ("archive_entry_pathname", (pointer,), ctypes.c_char_p),
        ("archive_entry_filetype", (pointer,), ctypes.c_uint),
        *((f"archive_read_support_format_{each}", (pointer,), ctypes.c_int) for each in _FORMATS),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, answer
    return library


_LIBRARY: Final = _load()


def is_installed() -> bool:
    """Whether the library is there."""
    return _LIBRARY is not None


def walk(archive: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member of a RAR or 7z archive to the visitor. Raises as `members` does."""
    for name, pieces in members(archive, budget):
        visitor.member(name, pieces)
    return {"read_with": "libarchive"}


def members(archive: RandomAccess, budget: Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield name and content of every member of a RAR or 7z archive, by its data's own checksum; what was not read of one is skipped.

    Raises `Corrupt`, `Encrypted`, and `Unsupported` without the library, for what it cannot read, and where there is no room for the file.
    """
    if _LIBRARY is None:
        raise Unsupported("what is in the archive cannot be judged: libarchive is not installed")
    try:
        memory = archive.mapped()
    except (OSError, ValueError) as error:
        raise Unsupported(f"what is in the archive cannot be judged: no room to hold it ({error})") from error
    handle = _LIBRARY.archive_read_new()
    try:
        reader = _Reader(_LIBRARY, handle, budget)
        for each in _FORMATS:
            getattr(_LIBRARY, f"archive_read_support_format_{each}")(handle)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) if memory else None
        reader.checked(_LIBRARY.archive_read_open_memory(handle, start, len(memory)))
        for name, is_folder in reader.members():
            yield name, iter(()) if is_folder else reader.pieces()
    finally:
        _LIBRARY.archive_read_free(handle)


class _Reader:
    def __init__(self, library: ctypes.CDLL, handle: int, budget: Budget) -> None:
        self._library = library
        self._handle = handle
        self._budget = budget

    def members(self) -> Iterator[tuple[str, bool]]:
        """Yield the name of each member, and whether it is a folder: libarchive has no data of those to read."""
        entry = ctypes.c_void_p()
        while self._is_at_member(entry):
            name: bytes = self._library.archive_entry_pathname(entry) or b""
            yield name.decode("utf-8", "replace"), stat.S_ISDIR(self._library.archive_entry_filetype(entry))

    def _is_at_member(self, entry: ctypes.c_void_p) -> bool:
        try:
            return self.checked(self._library.archive_read_next_header(self._handle, ctypes.byref(entry))) != _END
        except Corrupt as said:  # the headers are sound by their checksums, or they would not have been handed to this reader
            raise Unsupported(f"what is in the archive cannot be judged by libarchive: {said}") from said

    def pieces(self) -> Iterator[bytes]:
        start, size, offset = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int64()
        references = (ctypes.byref(start), ctypes.byref(size), ctypes.byref(offset))
        while self.checked(self._library.archive_read_data_block(self._handle, *references)) != _END:
            if size.value:
                self._budget.spend(size.value)
                yield ctypes.string_at(start.value or 0, size.value)

    def checked(self, answer: int) -> int:
        """Answer what a call answered; raise what it says of the file when it failed."""
        if answer >= _WARN:
            return answer
        raise _judge((self._library.archive_error_string(self._handle) or b"").decode("utf-8", "replace"))


def _judge(said: str) -> Judgement:
    if _ENCRYPTED.search(said):
        return Encrypted("the archive is protected by a password")
    if _LACKING.search(said) or not _DAMAGED.search(said):
        return Unsupported(f"what is in the archive cannot be judged by libarchive: {said}")
    return Corrupt(f"the archive does not unpack: {said}")
