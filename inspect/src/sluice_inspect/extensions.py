"""The extension of a file name, and what it promises: by the list of formats, and for names of no format."""

import re
from enum import Enum, auto
from functools import cache
from typing import Final

from sluice_inspect.format_list import LIST


class Promise(Enum):
    """What a file is expected to be by its extension."""

    BINARY = auto()  # a document, picture or recording that is never written in characters
    DOCUMENT = auto()  # a document under whose name many programs save text: tables as .xls, pages as .doc
    TEXT = auto()
    ARCHIVE = auto()  # disk images too


# Extensions of no format, and those of ZIP archives that are documents.
_OTHERS: Final = {
    extension: promise
    for promise, extensions in {
        Promise.BINARY: "ico mpeg mpg odg psd vsdx wma wmv",
        Promise.DOCUMENT: "key mht numbers one pages pub vsd",
        Promise.TEXT: "css ics srt tsv vcf",
        Promise.ARCHIVE: "ace arj cab cpio img iso lha lzh udf vhd vhdx wim z",
    }.items()
    for extension in extensions.split()
}
DISK_IMAGES: Final = frozenset({"cab", "img", "iso", "vhd", "vhdx"})
"""Archives that mail clients list among the programs, since opening one mounts it."""


def extension_of(name: str) -> str:
    """Return the extension by which Windows would open a file: lower case, trailing dots and spaces ignored."""
    last = re.split(r"[/\\:]", name)[-1].split("\0")[0].rstrip(". ")
    return last.rpartition(".")[2].lower() if "." in last else ""


def promise_of(extension: str) -> Promise | None:
    """Return what an extension promises, None for one that is not known."""
    return _promises().get(extension)


@cache
def _promises() -> dict[str, Promise]:
    named = {extension: each.promise for each in LIST.values() for extension in each.extensions}
    return {extension: Promise[name] for extension, name in named.items() if name is not None} | _OTHERS
