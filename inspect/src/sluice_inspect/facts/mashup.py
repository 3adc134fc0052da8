"""The queries of Power Query in a workbook ([MS-QDEFF]): whether one reads what is outside of the workbook."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from sluice_inspect.archives.zip.archive import read_archive
from sluice_inspect.budget import Budget
from sluice_inspect.report import Corrupt, Limits
from sluice_inspect.source import MemorySource
from sluice_inspect.text.xmlsafe import XmlTarget

WORD: Final = b"DATAMASHUP"
_LENGTH: Final = slice(4, 8)  # of the package, behind the version
_HEADER_BYTES: Final = 8
_SCRIPTS: Final = ".m"
# Names in quotation marks are names; texts, comments and names of columns are no code.
_NOT_CODE: Final = re.compile(r"#\"((?:[^\"]|\"\")*+)\"|\"(?:[^\"]|\"\")*+\"|//[^\r\n]*+|/\*[\s\S]*?\*/|\[[\w. ]*+\]")
_ESCAPE: Final = "#("
# Libraries that calculate with what they are given. Any other reads something, or runs code of another language.
_CALCULATING: Final = frozenset("""
    Any Binary BinaryEncoding BinaryFormat BinaryOccurrence Byte ByteOrder Character Combiner Comparer Compression Csv
    CsvStyle Culture Currency Date DateTime DateTimeZone Day Decimal Diagnostics Double Duration Error Excel ExtraValues
    Function GroupKind Guid Html Int16 Int32 Int64 Int8 ItemExpression JoinAlgorithm JoinKind JoinSide Json
    LimitClauseKind Lines List Logical MissingField None Null Number Occurrence Order Parquet Pdf Percentage Precision
    QuoteStyle RankKind Record RelativePosition Replacer RoundingMode RowExpression Single Splitter SqlExpression Table
    Text TextEncoding Time TraceLevel Type Uri Value Variable Xml
""".split())  # fmt: skip  # noqa: SIM905  (a list of names)
_LIBRARY: Final = re.compile(r"(?<![\w.])(?:([A-Z]\w*)\.[A-Z]\w*|#shared\b|#sections\b)")


class Mashup(XmlTarget):
    """Collects the text of the element that holds the queries."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_open = False

    @property
    def text(self) -> str:
        """The queries in base64, empty if the part has none."""
        return "".join(self._pieces)

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""
        self._is_open = tag.rpartition("}")[2] == "DataMashup"

    def end(self, _tag: str) -> None:
        """Read the end of an element."""
        self._is_open = False

    def data(self, text: str) -> None:
        """Read a piece of text."""
        if self._is_open:
            self._pieces.append(text)


def reads_outside(text: str, limits: Limits) -> bool:
    """Return whether queries read anything but their workbook. Raise `InspectionError` if they cannot be read."""
    try:
        data = base64.b64decode(text)
    except binascii.Error as error:
        raise Corrupt(f"the queries of the workbook cannot be read: {error}") from error
    size = int.from_bytes(data[_LENGTH], "little")
    package = MemorySource(bytearray(data[_HEADER_BYTES : _HEADER_BYTES + size]))
    archive = read_archive(package, limits)
    budget = Budget(limits, packed_bytes=size)
    scripts = [index for name, index in archive.by_name.items() if name.lower().endswith(_SCRIPTS)]
    return any(_reads(archive.open(index, budget).read(-1).decode("utf-8", "replace")) for index in scripts)


def _reads(script: str) -> bool:
    code = _NOT_CODE.sub(_code_of, script)
    return any(found[1] not in _CALCULATING for found in _LIBRARY.finditer(code))


def _code_of(found: re.Match[str]) -> str:
    name = found[1] or ""
    return "#shared" if _ESCAPE in name else f" {name} " if _LIBRARY.fullmatch(name) else " "
