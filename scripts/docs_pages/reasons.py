"""`docs/reasons.md`: every reason code of a rejected upload. The codes and their words are declared in `sluice.uploads.reasons`."""

from docs_pages.markdown import made_from, page, table
from sluice.errors import FileRejected, LimitExceeded
from sluice.uploads.reasons import LIMIT_REASONS, WORDS, Reason

_INTRO = """
# Reason codes

An upload that breaks a rule of its context is refused with exactly one reason code, the first that applies. The order of the
table is the order in which the rules are judged; [the way of an upload](way-of-an-upload.md) says when each is.

```json
{
  "status": "ERROR",
  "message": "File rejected: the document is blank",
  "errors": ["blank_document"],
  "timestamp": "2026-01-31T12:00:00Z"
}
```

The codes are stable. The words may change, so programs compare the code. "Retry" says whether the same bytes may pass later
without a change of the context; a reply with status 429 also carries `Retry-After` in seconds.

Every rejection is one row of the decision log. It keeps what was measured (sizes, the found type, the name of the threat), which
the caller is not told.
"""

_NOTES = """
## Notes

- **Which rule asks.** `corrupt_file`, `type_mismatch`, `polyglot_file`, `archive_bomb`, `archive_unsafe` and `image_too_large` are
  judged where `reject_corrupt_files` is on. `blank_document` needs `reject_blank_files`, `virus_detected` and `scan_incomplete` need
  `scan_for_viruses`. `validation_limits_exceeded` is judged where `reject_corrupt_files` is on, or where the checker was stopped
  before it could report and one of the two rules needed its word; the latter also holds for `unprocessable_file`.
- **Empty files.** A file of zero bytes, or of nothing but 0x00 or 0xFF, is `blank_document` before its integrity is judged. All other
  blank files are judged after it.
- **A part that is away is no reason.** When the scanner, the checker, the storage or the database does not answer, the reply is 503
  ([`unavailable`](errors.md#unavailable)), never a pass and never a rejection.
- **Races.** The last place in the plan or the last bytes of the quota may be taken by another upload after the look. Then the reply
  carries the same code that the look would have given.
"""


def reasons_page() -> str:
    """Answer the page."""
    heads = ("Code", "Status", "Retry", "Message")
    rows = [
        (f"[`{reason.value}`](#{reason.value})", str(_status(reason)), "yes" if words.retryable else "no", words.message)
        for reason, words in WORDS.items()
    ]
    sections = [block for reason in WORDS for block in _section(reason)]
    return page(made_from("src/sluice/uploads/reasons.py"), _INTRO, table(heads, rows), *sections, _NOTES)


def _section(reason: Reason) -> tuple[str, ...]:
    words = WORDS[reason]
    facts = (
        ("When", words.developer),
        ("For the person who sent the file", words.user),
        ("Status", str(_status(reason))),
        ("The same bytes may pass later", "yes" if words.retryable else "no"),
    )
    return f"## {reason.value}", "\n".join(f"- **{name}:** {text}" for name, text in facts)


def _status(reason: Reason) -> int:
    return LimitExceeded.status if reason in LIMIT_REASONS else FileRejected.status
