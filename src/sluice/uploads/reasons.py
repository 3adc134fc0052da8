"""The catalogue of reason codes: why an upload was refused. When each applies is decided in `decide`; `docs/reasons.md` lists them."""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Reason(StrEnum):
    """The stable codes, in the order in which the rules are judged."""

    EXTENSION_NOT_ALLOWED = "extension_not_allowed"
    FILE_TOO_LARGE = "file_too_large"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    MONTHLY_LIMIT_EXCEEDED = "monthly_limit_exceeded"
    STORAGE_QUOTA_EXCEEDED = "storage_quota_exceeded"
    CORRUPT_FILE = "corrupt_file"
    TYPE_MISMATCH = "type_mismatch"
    POLYGLOT_FILE = "polyglot_file"
    ARCHIVE_BOMB = "archive_bomb"
    ARCHIVE_UNSAFE = "archive_unsafe"
    IMAGE_TOO_LARGE = "image_too_large"
    VALIDATION_LIMITS_EXCEEDED = "validation_limits_exceeded"
    UNPROCESSABLE_FILE = "unprocessable_file"
    BLANK_DOCUMENT = "blank_document"
    VIRUS_DETECTED = "virus_detected"
    SCAN_INCOMPLETE = "scan_incomplete"


@dataclass(frozen=True, slots=True)
class Words:
    """What is said of a reason.

    `summary` completes "File rejected: …". `developer` tells an integrator what was measured, `user` tells the person who sent the
    file what to do; the code is its key for translation. `retryable` says whether the same bytes may pass later.
    """

    summary: str
    developer: str
    user: str
    retryable: bool = False

    @property
    def message(self) -> str:
        """The envelope's message."""
        return f"File rejected: {self.summary}"


WORDS: Final = MappingProxyType(
    {
        Reason.EXTENSION_NOT_ALLOWED: Words(
            "this file extension is not allowed",
            "The last extension of the file name is not among the context's allowed_extensions.",
            "Files of this kind are not accepted here. Please send one of the accepted kinds.",
        ),
        Reason.FILE_TOO_LARGE: Words(
            "the file is too large",
            "The file has more than the context's max_file_size_mb × 1,048,576 bytes.",
            "This file is too large. Please send a smaller one.",
        ),
        Reason.RATE_LIMIT_EXCEEDED: Words(
            "too many uploads in a short time",
            "The context's upload_rate_limit was reached; Retry-After says when a place falls free. Answered with 429.",
            "Too many files were sent in a short time. Please try again in a moment.",
            retryable=True,
        ),
        Reason.MONTHLY_LIMIT_EXCEEDED: Words(
            "the monthly upload limit of the plan is reached",
            "The tenant's plan allows no more stored files in this calendar month (UTC). Answered with 429.",
            "No more files can be accepted this month.",
            retryable=True,
        ),
        Reason.STORAGE_QUOTA_EXCEEDED: Words(
            "the storage quota is used up",
            "Storing the file would pass the context's storage_quota_mb. Deleting files frees their bytes at once.",
            "There is no room left for this file.",
            retryable=True,
        ),
        Reason.CORRUPT_FILE: Words(
            "the file is damaged or incomplete",
            "The content does not decode, or is truncated, by its format's own rules.",
            "This file is damaged or incomplete. Please open it to see whether it is whole, then send it again.",
        ),
        Reason.TYPE_MISMATCH: Words(
            "the content does not match the file extension",
            "The content is of a format that the extension does not name.",
            "The content of this file is of another kind than its name says. Please save it in the right format.",
        ),
        Reason.POLYGLOT_FILE: Words(
            "the file is two kinds of file at once",
            "The content is valid as two formats at once, which is how attacks are smuggled past checks.",
            "This file could not be accepted. Please export it anew from the program that made it.",
        ),
        Reason.ARCHIVE_BOMB: Words(
            "the archive unpacks to far more than it may",
            "Unpacked size, ratio, depth or entry count of the archive pass the limits.",
            "This archive unpacks to too much. Please send the files in it one by one.",
        ),
        Reason.ARCHIVE_UNSAFE: Words(
            "the archive holds unsafe entries",
            "The archive has entries that leave its folder, links, or headers that contradict each other.",
            "This archive is not safe to unpack. Please make it anew and send it again.",
        ),
        Reason.IMAGE_TOO_LARGE: Words(
            "the image has too many pixels or frames",
            "The image passes the pixel or frame budget.",
            "This picture has too many pixels. Please scale it down and send it again.",
        ),
        Reason.VALIDATION_LIMITS_EXCEEDED: Words(
            "checking the file takes more than the limits allow",
            "The checker ran into its limit of time or memory on this file.",
            "This file is too complex to be checked. Please simplify it or send it in another format.",
        ),
        Reason.UNPROCESSABLE_FILE: Words(
            "the file could not be processed",
            "The checker ended unexpectedly on this file.",
            "This file could not be processed. Please save it anew or send it in another format.",
        ),
        Reason.BLANK_DOCUMENT: Words(
            "the document is blank",
            "The file is empty, or a reader would see nothing in it.",
            "This file is empty. Please check that you chose the right one.",
        ),
        Reason.VIRUS_DETECTED: Words(
            "malware was found",
            "The scanner names a threat; its name is in the decision log.",
            "This file was found to be harmful and was not accepted.",
        ),
        Reason.SCAN_INCOMPLETE: Words(
            "the file could not be scanned completely",
            "The scanner could not look at all of the file: a size or recursion limit. Unscanned is never clean.",
            "This file could not be scanned completely. Please send it in smaller parts.",
        ),
    }
)

LIMIT_REASONS: Final = frozenset({Reason.RATE_LIMIT_EXCEEDED, Reason.MONTHLY_LIMIT_EXCEEDED})
"""Reasons that are answered with 429: time alone heals them."""
