"""RAR and 7z archives read with the system's libarchive, which alone knows RAR data and some methods of 7z."""
# It reads memory here, opens no file and starts no thread. Its member names are not trusted: callers check names,
# links and sizes by headers that they read themselves.

import ctypes
import re
import stat
from collections.abc import Iterator
from typing import Final

from sluice_inspect.budget import Budget
from sluice_inspect.format import load_library
from sluice_inspect.report import Corrupt, Encrypted, Unsupported
from sluice_inspect.source import RandomAccess

_LIBRARY_NAMES: Final = ("libarchive.so.13", "libarchive.13.dylib", "libarchive.dylib")
_END, _WARN = 1, -20  # ARCHIVE_EOF, ARCHIVE_WARN: lower values are errors
_FORMATS: Final = ("rar", "rar5", "7zip")

# Words in libarchive's reasons. Those on block headers and filter types are said of damaged RAR data only. A reason
# that matches none of these is not held against the file.
_ENCRYPTED: Final = re.compile(r"ncrypt|assphrase|Crypto")
_LACKING: Final = re.compile(
    r"nsupported(?! block| filter type)|not (?:currently )?supported|No support|navailable|emory|llocat|codec|onvert"
    r"|Internal"
)
_DAMAGED: Final = re.compile(
    r"CRC|hecksum|runcated|orrupt|nvalid|alformed|Bad|amaged|nexpected|rror|ailed|Premature|exceed|block|filter type"
    r"|tree|Prefix|pointer|symbol|too many"
)


_POINTER, _SIZE = ctypes.c_void_p, ctypes.c_size_t
_TO_POINTER, _TO_SIZE, _TO_OFFSET = ctypes.POINTER(_POINTER), ctypes.POINTER(_SIZE), ctypes.POINTER(ctypes.c_int64)
_SIGNATURES: Final = (
    ("archive_read_new", (), _POINTER),
    ("archive_read_free", (_POINTER,), ctypes.c_int),
    ("archive_read_open_memory", (_POINTER, _POINTER, _SIZE), ctypes.c_int),
    ("archive_read_next_header", (_POINTER, _TO_POINTER), ctypes.c_int),
    ("archive_read_data_block", (_POINTER, _TO_POINTER, _TO_SIZE, _TO_OFFSET), ctypes.c_int),
    ("archive_error_string", (_POINTER,), ctypes.c_char_p),
    ("archive_entry_pathname", (_POINTER,), ctypes.c_char_p),
    ("archive_entry_filetype", (_POINTER,), ctypes.c_uint),
    *((f"archive_read_support_format_{each}", (_POINTER,), ctypes.c_int) for each in _FORMATS),
)
_LIBRARY: Final = load_library(_LIBRARY_NAMES, _SIGNATURES)


def is_installed() -> bool:
    """Whether the shared library was found."""
    return _LIBRARY is not None


def members(archive: RandomAccess, budget: Budget) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield name and content of every member. Raise `Corrupt`, `Encrypted` or `Unsupported` (no library, no memory)."""
    if _LIBRARY is None:
        raise Unsupported("what is in the archive cannot be judged: libarchive is not installed")
    try:
        memory = archive.mapped()
    except (OSError, ValueError) as error:
        raise Unsupported(f"what is in the archive cannot be judged: no room to hold it ({error})") from error
    handle = _LIBRARY.archive_read_new()
    try:
        reader = _ArchiveReader(_LIBRARY, handle, budget)
        for each in _FORMATS:
            getattr(_LIBRARY, f"archive_read_support_format_{each}")(handle)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory)) if memory else None
        reader.checked(_LIBRARY.archive_read_open_memory(handle, start, len(memory)))
        for name, is_folder in reader.members():
            # libarchive raises an error when the data of a folder is read
            yield name, iter(()) if is_folder else reader.pieces()
    finally:
        _LIBRARY.archive_read_free(handle)


class _ArchiveReader:
    def __init__(self, library: ctypes.CDLL, handle: int, budget: Budget) -> None:
        self._library = library
        self._handle = handle
        self._budget = budget

    def members(self) -> Iterator[tuple[str, bool]]:
        entry = ctypes.c_void_p()
        while True:
            try:
                status = self.checked(self._library.archive_read_next_header(self._handle, ctypes.byref(entry)))
            except Corrupt as reason:
                # The checksums of the headers were valid: libarchive lacks a feature, the file is not damaged.
                raise Unsupported(f"what is in the archive cannot be judged by libarchive: {reason}") from reason
            if status == _END:
                return
            name: bytes = self._library.archive_entry_pathname(entry) or b""
            yield name.decode("utf-8", "replace"), stat.S_ISDIR(self._library.archive_entry_filetype(entry))

    def pieces(self) -> Iterator[bytes]:
        start, size, offset = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_int64()
        references = (ctypes.byref(start), ctypes.byref(size), ctypes.byref(offset))
        while self.checked(self._library.archive_read_data_block(self._handle, *references)) != _END:
            if size.value:
                self._budget.spend(size.value)
                yield ctypes.string_at(start.value or 0, size.value)

    def checked(self, status: int) -> int:
        """Return a call's status, or raise libarchive's reason if the call failed."""
        if status >= _WARN:
            return status
        reason = (self._library.archive_error_string(self._handle) or b"").decode("utf-8", "replace")
        if _ENCRYPTED.search(reason):
            raise Encrypted("the archive is protected by a password")
        if _LACKING.search(reason) or not _DAMAGED.search(reason):
            raise Unsupported(f"what is in the archive cannot be judged by libarchive: {reason}")
        raise Corrupt(f"the archive does not unpack: {reason}")
