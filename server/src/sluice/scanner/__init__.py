"""Malware scanners: the contract, and the engines behind it.

What a result means for an upload is decided in `uploads`.
"""

from sluice.scanner.protocol import (
    Clean,
    EngineVersion,
    FindsScanLimit,
    Incomplete,
    Infected,
    Scanner,
    ScannerUnavailable,
    ScanResult,
    SingleResult,
    healths_of,
    version_of,
)
from sluice_inspect.sandbox.unpack import CHECK_AND_SCAN_BYTES, UnpackReport, parse_unpack_report

__all__ = [
    "CHECK_AND_SCAN_BYTES",
    "Clean",
    "EngineVersion",
    "FindsScanLimit",
    "Incomplete",
    "Infected",
    "ScanResult",
    "Scanner",
    "ScannerUnavailable",
    "SingleResult",
    "UnpackReport",
    "healths_of",
    "parse_unpack_report",
    "version_of",
]
