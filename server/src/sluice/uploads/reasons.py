"""The catalogue of reason codes: why an upload was rejected.

When each applies is decided in `rules`; `docs/reasons.md` lists them.
"""

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal


class Reason(StrEnum):
    """The stable codes of rejections."""

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
    CONTENT_TYPE_NOT_ALLOWED = "content_type_not_allowed"
    ENCRYPTED_FILE = "encrypted_file"
    ACTIVE_CONTENT = "active_content"
    PROGRAM_IN_ARCHIVE = "program_in_archive"
    IMAGE_DIMENSIONS = "image_dimensions"
    ILLEGIBLE_PICTURE = "illegible_picture"
    TOO_MANY_PAGES = "too_many_pages"
    MEDIA_LIMITS = "media_limits"
    ARCHIVE_LIMITS = "archive_limits"
    FILE_TOO_SMALL = "file_too_small"
    FILENAME_NOT_ALLOWED = "filename_not_allowed"
    DENIED_FILE = "denied_file"
    DUPLICATE_FILE = "duplicate_file"
    VIRUS_DETECTED = "virus_detected"
    SCAN_INCOMPLETE = "scan_incomplete"
    REJECTED_BY_CHECK = "rejected_by_check"
    CHECK_UNANSWERED = "check_unanswered"
    CANNOT_SANITISE = "cannot_sanitise"
    ORIGINAL_KEPT = "original_kept"
    MISSING_TEXT = "missing_text"
    FORBIDDEN_TEXT = "forbidden_text"
    WRONG_LANGUAGE = "wrong_language"
    OUTDATED_DOCUMENT = "outdated_document"
    IDENTIFIER_FOUND = "identifier_found"
    WRONG_DOCUMENT_KIND = "wrong_document_kind"


_CODES: Final = frozenset(Reason)


def stored_reason(code: str | None) -> Reason | None:
    """Return the reason of a logged decision; None if it has none, or one that only the next release knows."""
    return Reason(code) if code in _CODES else None


# The external checks of a context: each is the check `external.NAME`.
EXTERNAL: Final = "external"

# What the sender can do about a rejection.
Advice = Literal["wait", "send_another_file", "remove_password", "make_smaller", "ask_support"]


@dataclass(frozen=True, slots=True)
class Words:
    """The sentences for a reason.

    `summary` completes "File rejected: …". `developer` explains to an integrator what was measured; what the sender
    sees is in `sluice.messages`, under the code. `check` is the check of a report that gives the reason. `retryable`
    says whether the same bytes may pass later.
    """

    summary: str
    developer: str
    check: str
    advice: Advice = "send_another_file"
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
            check="extension",
        ),
        Reason.FILE_TOO_LARGE: Words(
            "the file is too large",
            "The file has more than the context's max_file_size_mb × 1,048,576 bytes.",
            check="size",
            advice="make_smaller",
        ),
        Reason.RATE_LIMIT_EXCEEDED: Words(
            "too many uploads in a short time",
            "The context's upload_rate_limit was reached; Retry-After says when a place falls free. The status is 429.",
            check="rate",
            advice="wait",
            retryable=True,
        ),
        Reason.MONTHLY_LIMIT_EXCEEDED: Words(
            "the monthly upload limit of the plan is reached",
            "The tenant's plan allows no more stored files in this calendar month (UTC). The status is 429.",
            check="plan",
            advice="wait",
            retryable=True,
        ),
        Reason.STORAGE_QUOTA_EXCEEDED: Words(
            "the storage quota is used up",
            "Storing the file would pass the context's storage_quota_mb. Deleting files frees their bytes at once.",
            check="quota",
            advice="ask_support",
            retryable=True,
        ),
        Reason.CORRUPT_FILE: Words(
            "the file is damaged or incomplete",
            "The content does not decode, or is truncated, by its format's own rules.",
            check="integrity.structure",
        ),
        Reason.TYPE_MISMATCH: Words(
            "the content does not match the file extension",
            "The content is of a format that the extension does not name.",
            check="integrity.type",
        ),
        Reason.POLYGLOT_FILE: Words(
            "the file is two kinds of file at once",
            "The content is valid as two formats at once, which is how attacks are smuggled past checks.",
            check="integrity.polyglot",
        ),
        Reason.ARCHIVE_BOMB: Words(
            "the archive unpacks to far more than it may",
            "Unpacked size, ratio, depth or entry count of the archive pass the limits.",
            check="integrity.archive",
        ),
        Reason.ARCHIVE_UNSAFE: Words(
            "the archive holds unsafe entries",
            "The archive has entries that leave its folder, links, or headers that contradict each other.",
            check="integrity.archive",
        ),
        Reason.IMAGE_TOO_LARGE: Words(
            "the image has too many pixels or frames",
            "The image passes the pixel or frame budget.",
            check="integrity.image",
            advice="make_smaller",
        ),
        Reason.VALIDATION_LIMITS_EXCEEDED: Words(
            "checking the file takes more than the limits allow",
            "The checker ran into its limit of time or memory on this file.",
            check="integrity.structure",
        ),
        Reason.UNPROCESSABLE_FILE: Words(
            "the file could not be processed",
            "The checker ended unexpectedly on this file.",
            check="integrity.structure",
        ),
        Reason.BLANK_DOCUMENT: Words(
            "the document is blank",
            "The file is empty, or a reader would see nothing in it.",
            check="blank",
        ),
        Reason.CONTENT_TYPE_NOT_ALLOWED: Words(
            "this type of content is not allowed",
            "The type that was measured is not on the allow-list of the context's policy content_types.",
            check="policy.content_types",
        ),
        Reason.ENCRYPTED_FILE: Words(
            "the file is protected by a password",
            "The file, or a member of the archive, is encrypted, and the context's policy encrypted refuses that.",
            check="policy.encrypted",
            advice="remove_password",
        ),
        Reason.ACTIVE_CONTENT: Words(
            "the file contains active content",
            "Macros, scripts, launch actions, embedded objects or links that open by themselves were found, and the "
            "context's policy active_content refuses them.",
            check="policy.active_content",
        ),
        Reason.PROGRAM_IN_ARCHIVE: Words(
            "the archive contains a program",
            "A program or a script is in the archive, and the context's policy programs_in_archives refuses that.",
            check="policy.programs_in_archives",
        ),
        Reason.IMAGE_DIMENSIONS: Words(
            "the image does not have an accepted size",
            "Width, height, number of pixels or animation are outside the context's policy image.",
            check="policy.image",
        ),
        Reason.ILLEGIBLE_PICTURE: Words(
            "the picture cannot be read",
            "The picture is too dark, blurred, from too far away or at an angle, by the context's policy legible: "
            "`found` says which.",
            check="policy.legible",
        ),
        Reason.TOO_MANY_PAGES: Words(
            "the document has too many pages",
            "The document has more pages, sheets or slides than the context's policy document allows.",
            check="policy.document",
            advice="make_smaller",
        ),
        Reason.MEDIA_LIMITS: Words(
            "the recording is too long or of a kind that is not accepted",
            "Duration or codecs are outside the context's policy media.",
            check="policy.media",
            advice="make_smaller",
        ),
        Reason.ARCHIVE_LIMITS: Words(
            "the archive is too large or too deeply nested",
            "Members, depth or unpacked size are above the limits of the context's policy archive.",
            check="policy.archive",
            advice="make_smaller",
        ),
        Reason.FILE_TOO_SMALL: Words(
            "the file is too small",
            "The file has fewer bytes than the context's policy min_size_bytes asks for.",
            check="policy.min_size_bytes",
        ),
        Reason.FILENAME_NOT_ALLOWED: Words(
            "the file name is not accepted",
            "The file name does not match the pattern of the context's policy filename_pattern.",
            check="policy.filename_pattern",
        ),
        Reason.DENIED_FILE: Words(
            "this file is not accepted",
            "A digest of the file, or of a file in it, is on a hash list of the tenant or of the installation. A key "
            "with the scope metadata sees which entry it is.",
            check="hash_list",
            advice="ask_support",
        ),
        Reason.DUPLICATE_FILE: Words(
            "the same file is stored already",
            "A stored file of the context has the same SHA-256, and the policy duplicates refuses that. A key with the "
            "scope metadata sees which file it is.",
            check="policy.duplicates",
        ),
        Reason.VIRUS_DETECTED: Words(
            "malware was found",
            "The scanner names a threat; its name is in the decision log.",
            check="malware",
        ),
        Reason.SCAN_INCOMPLETE: Words(
            "the file could not be scanned completely",
            "The scanner could not look at all of the file: a size or recursion limit. Unscanned is never clean. Or "
            "not all files in it could be compared with a deny list: the report names the check `hash_list`.",
            check="malware",
            advice="make_smaller",
        ),
        Reason.REJECTED_BY_CHECK: Words(
            "an additional check does not accept it",
            "An external check of the context answered `reject` or `quarantine`, or a check of "
            "`SLUICE_PYTHON_CHECKS` found something or did not end; the report says which, and what.",
            check=EXTERNAL,
        ),
        Reason.CHECK_UNANSWERED: Words(
            "an additional check could not be made",
            "An external check of the context gave no answer, and its if_unavailable is `quarantine` or `accept`, or "
            "its mode is `report`. It rejects no file.",
            check=EXTERNAL,
            advice="wait",
            retryable=True,
        ),
        Reason.CANNOT_SANITISE: Words(
            "what must not be kept cannot be taken out of it",
            "The context's `sanitise` takes something out of every file, which is not possible with this one: `found` "
            "says why. No file is stored half-clean.",
            check="sanitise",
        ),
        Reason.ORIGINAL_KEPT: Words(
            "it is the original of a file that was sanitised",
            "The context's `sanitise` keeps what was sent in quarantine. It rejects no file, and its file is never "
            "released.",
            check="sanitise",
        ),
        Reason.MISSING_TEXT: Words(
            "something is missing in the text of the document",
            "The text of the document does not contain what the context's policy text asks for, has fewer words, or "
            "cannot be read, as that of a scan without OCR. The report has the names of what is missing, never the "
            "text.",
            check="policy.text",
        ),
        Reason.FORBIDDEN_TEXT: Words(
            "the text of the document contains something that is not accepted",
            "The text of the document contains what the context's policy text forbids; the report has its name.",
            check="policy.text",
        ),
        Reason.WRONG_LANGUAGE: Words(
            "the document is in a language that is not accepted",
            "The text of the document is in none of the languages of the context's policy text.",
            check="policy.text",
        ),
        Reason.OUTDATED_DOCUMENT: Words(
            "the document is too old",
            "The newest date behind a label is older than the context's policy text allows, or there is none, and the "
            "policy needs one.",
            check="policy.text",
        ),
        Reason.IDENTIFIER_FOUND: Words(
            "the document contains a number that must not be sent",
            "The text of the document contains numbers of cards, accounts or persons that the context's policy text "
            "forbids; the report counts them, and never has them.",
            check="policy.text",
        ),
        Reason.WRONG_DOCUMENT_KIND: Words(
            "the document is unlike those that are expected",
            "The words and the layout of the document are less like the context's examples than its policy "
            "document_kind asks for, or it has no text to compare, as a scan. The report has words of the examples "
            "that it shares and lacks, never others.",
            check="policy.document_kind",
        ),
    }
)

# Reasons with status 429: they pass with time.
LIMIT_REASONS: Final = frozenset({Reason.RATE_LIMIT_EXCEEDED, Reason.MONTHLY_LIMIT_EXCEEDED})
