"""Lists of hashes: files that are denied, and files that need no malware scan, by a digest of their bytes."""

from sluice.hash_lists.entry import ALGORITHMS, EntryFilter, HashEntry, HashList, ListedHash

__all__ = ["ALGORITHMS", "EntryFilter", "HashEntry", "HashList", "ListedHash"]
