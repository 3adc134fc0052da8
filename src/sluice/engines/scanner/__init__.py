"""Malware scanners: what they answer, and the engines that answer it. What an answer means for an upload is decided there."""

from sluice.engines.scanner.protocol import Clean, Edition, Incomplete, Infected, Scanner, ScanResult, Unavailable

__all__ = ["Clean", "Edition", "Incomplete", "Infected", "ScanResult", "Scanner", "Unavailable"]
