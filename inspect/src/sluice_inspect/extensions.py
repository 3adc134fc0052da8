"""The extension of a file name, and what it promises: by the formats of the registry, and for names of no format."""

import re
from enum import Enum, auto
from functools import cache
from typing import Final


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
    # When it is first needed: the registry loads the formats, and some of them import this module.
    from sluice_inspect.format import Family, Format  # noqa: PLC0415
    from sluice_inspect.registry import FORMATS  # noqa: PLC0415

    def promise(each: Format) -> Promise | None:
        if each.family is Family.FONT:
            return None
        if each.family is Family.ARCHIVE:
            return Promise.ARCHIVE
        if each.is_text:
            return Promise.TEXT
        return Promise.DOCUMENT if each.may_be_text else Promise.BINARY

    named = {extension: promise(each) for each in FORMATS for extension in each.extensions}
    return {extension: found for extension, found in named.items() if found is not None} | _OTHERS
