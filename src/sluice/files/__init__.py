"""Stored files: records, listings, download links, soft deletion. How a file comes in lives in `uploads`."""

from sluice.files.record import FileRecord

__all__ = ["FileRecord"]
