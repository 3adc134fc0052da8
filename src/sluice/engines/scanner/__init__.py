"""Malware scanners: what they answer, and the engines that answer it. What an answer means for an upload is decided there."""

from sluice.engines.scanner.own_look import Glance, look_beside_check
from sluice.engines.scanner.protocol import Clean, Edition, FindsReach, Incomplete, Infected, Scanner, ScanResult, Unavailable

__all__ = [
    "Clean",
    "Edition",
    "FindsReach",
    "Glance",
    "Incomplete",
    "Infected",
    "ScanResult",
    "Scanner",
    "Unavailable",
    "look_beside_check",
]
