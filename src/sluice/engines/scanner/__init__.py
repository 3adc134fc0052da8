"""Malware scanners: what they answer, and the engines that answer it. What an answer means for an upload is decided there."""

from sluice.engines.scanner.protocol import Clean, Edition, FindsReach, Incomplete, Infected, Scanner, ScanResult, Unavailable

__all__ = ["Clean", "Edition", "FindsReach", "Incomplete", "Infected", "ScanResult", "Scanner", "Unavailable"]
