"""Stored files: records, listings, download links, soft deletion. How a file comes in is in `uploads`."""

from sluice.files.record import FileFilter, FileRecord, Hold, Life, Quarantined

__all__ = ["FileFilter", "FileRecord", "Hold", "Life", "Quarantined"]
