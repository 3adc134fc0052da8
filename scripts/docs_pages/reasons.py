"""`docs/reasons.md`: every reason code of a rejected upload. They are declared in `sluice.uploads.reasons`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from docs_pages.markdown import fenced, made_from, page, table
from sluice.errors import FileRejected, LimitExceeded
from sluice.messages import DEFAULT_LOCALE, render
from sluice.uploads.reasons import LIMIT_REASONS, WORDS, Reason

# Made through the API by server/tests/api/test_rejections.py, which compares them with what the service returns.
_REJECTIONS: Final[Mapping[str, Any]] = json.loads(
    Path(__file__).with_name("rejections.json").read_text(encoding="utf-8")
)

_INTRO = """
# Reason codes

An upload that breaks a rule of its context is rejected with exactly one reason code, the first that applies. The rules
are applied in the order of the table; [the way of an upload](way-of-an-upload.md) describes when.

```json
{
  "status": "ERROR",
  "message": "File rejected: the document is blank",
  "errors": ["blank_document"],
  "timestamp": "2026-01-31T12:00:00Z"
}
```

The codes are stable. The messages may change, so programs compare the code. "Retry" means that the same bytes may pass
later without a change of the context; a reply with status 429 also has `Retry-After` in seconds.

Every rejection has a [report](reports.md) of what was checked and found. Each section below shows that of a real
rejection, as a key with the scope `metadata` gets it: without ids, times and versions, and with the failed check only.
The sentences are those that the sender gets in this case; [other cases](messages.md) have others.
"""

_NOTES = """
## Notes

- **Which rule rejects.** `corrupt_file`, `type_mismatch`, `polyglot_file`, `archive_bomb`, `archive_unsafe` and
  `image_too_large` need `reject_corrupt_files`. `blank_document` needs `reject_blank_files`, `virus_detected` and
  `scan_incomplete` need `scan_for_viruses`. `validation_limits_exceeded` needs `reject_corrupt_files`, or either
  content rule if the checker was stopped before it could report; the latter also applies to `unprocessable_file`.
- **Empty files.** A file of zero bytes, or only 0x00 or 0xFF, is `blank_document` before its integrity is judged. All
  other blank files are judged after it.
- **External checks.** `rejected_by_check` and `check_unanswered` need `external_checks`. The latter rejects no file: it
  says why one is in quarantine, or that it was stored without an answer.
- **Sanitising.** `cannot_sanitise` needs `sanitise`: [what can be taken out of which files](sanitising.md).
- **An unavailable part is no reason.** If the scanner, the checker, the storage or the database does not respond, the
  reply is 503 ([`unavailable`](errors.md#unavailable)), never a pass and never a rejection.
- **Races.** Another upload may take the last place in the plan or the last bytes of the quota after they were checked.
  The reply then has the same code as a rejection by the check.
"""


def reasons_page() -> str:
    """Return the page."""
    heads = ("Code", "Status", "Retry", "Message")
    rows = [
        (
            f"[`{reason.value}`](#{reason.value})",
            str(_status(reason)),
            "yes" if words.retryable else "no",
            words.message,
        )
        for reason, words in WORDS.items()
    ]
    sections = [block for reason in WORDS for block in _section(reason)]
    return page(made_from("server/src/sluice/uploads/reasons.py"), _INTRO, table(heads, rows), *sections, _NOTES)


def _section(reason: Reason) -> tuple[str, ...]:
    words = WORDS[reason]
    facts = (
        ("When", words.developer),
        ("For the person who sent the file", render(f"{reason.value}.plain", {}, DEFAULT_LOCALE)),
        ("Status", str(_status(reason))),
        ("The same bytes may pass later", "yes" if words.retryable else "no"),
    )
    rejection = _REJECTIONS.get(reason.value)
    if rejection is None:
        raise SystemExit(
            f"No rejection by {reason.value} is recorded: add one to server/tests/api/test_rejections.py, "
            "and run it with SLUICE_TEST_RECORD=1."
        )
    rules = f" in a context with `{json.dumps(rejection['rules'], ensure_ascii=False)}`" if rejection["rules"] else ""
    return (
        f"## {reason.value}",
        "\n".join(f"- **{name}:** {text}" for name, text in facts),
        f"An example: `{rejection['file']}`, {rejection['what']}{rules}.",
        fenced("json", _in_lines(rejection["report"])),
        table(("Locale", "Sentence"), [(f"`{locale}`", text) for locale, text in rejection["sentences"].items()]),
    )


def _in_lines(report: Mapping[str, Any]) -> str:
    """Return JSON with one member per line: objects in it stay on theirs."""
    members = [f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in report.items()]
    return "{\n" + ",\n".join(members) + "\n}"


def _status(reason: Reason) -> int:
    return LimitExceeded.status if reason in LIMIT_REASONS else FileRejected.status
