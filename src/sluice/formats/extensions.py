"""What file names promise where no kind says it: names of formats that have no kind yet, and names under which text is found as well."""

from typing import Final

TEXT: Final = "text"
"""Stands for any content that is written in characters."""

FOREIGN: Final[dict[str, frozenset[str]]] = {
    extension: frozenset(kinds.split())
    for kinds, extensions in {
        # Content of these formats is never one of our kinds: a PNG named .mp4 is a mismatch.
        "": "jxl psd wma mid midi wmv flv mpg mpeg cab iso exe dll msi",
        # Office opens web pages and text under these names, as many programs export them; and a page is Markdown.
        "text": "doc dot xls xlt md markdown",
        "pdf text": "ai eps ps",
        "text xml": "tsv ics vcf css js",
    }.items()
    for extension in extensions.split()
}
"""Which kinds a file of these extensions may turn out to be without being a mismatch. Extensions that stand in no list promise nothing."""


def extension_of(filename: str | None) -> str:
    """Answer the last extension of a name, lower case and without its dot, after trailing dots and spaces; empty when there is none."""
    if not filename:
        return ""
    name = filename.replace("\\", "/").rpartition("/")[2].rstrip(". ")
    stem, dot, extension = name.rpartition(".")
    return extension.lower() if dot and stem else ""
