"""`docs/blank.md` and `docs/not-blank.md`: examples of what counts as blank and what does not.

They are declared in `tests.inspection.formats.blank_examples`; scripts/blank_pictures.py draws their pictures.
"""

from collections.abc import Iterable

from docs_pages.markdown import made_from, page
from sluice.messages import DEFAULT_LOCALE, render
from sluice.uploads.reasons import Reason
from tests.inspection.formats.blank_examples import BLANK_EXAMPLES, NOT_BLANK_EXAMPLES, WHOLE, Example

_REASON = Reason.BLANK_DOCUMENT.value

_BLANK = f"""
# What counts as blank

A file is blank if a reader would see and hear nothing in it. What scanners, cameras and hands leave on an empty page
does not count: shadows, edges, holes, folds, dust. Where the context has `reject_blank_files`, the file is rejected
with the reason [`{_REASON}`](reasons.md#{_REASON}), and its sender reads:
“{{sentence}}”
([in other languages](messages.md#{_REASON}plain)).

Who answers a complaint finds the check `blank` in [the report](reports.md) of the upload, and what was measured in its
`facts` and `flags`; the amount of ink is not in it. If such files are wanted, set `reject_blank_files` to false, or
`blank` in `check_modes` to `report`: the file is stored, and its report says `would_fail`. With `quarantine` a person
decides ([modes](reports.md#modes)). [`sluice check`](cli.md#sluice-check) judges a file without sending it.

The rule of each format, and how many empty scans it finds, are in [formats](formats.md#pictures). The scans below are
drawn, and each of these files is blank. [What does not count as blank](not-blank.md) shows the other side.
"""

_NOT_BLANK = f"""
# What does not count as blank

A file is not blank if a reader could look for anything in it: a mark, a printed line, a picture. Where the rule cannot
tell a mark from a trace of scanning, the file counts as content and passes. A file like those below is not
rejected with the reason [`{_REASON}`](reasons.md#{_REASON}), so no sender reads
“{{sentence}}”
([messages](messages.md#{_REASON}plain)).

Who answers “an empty page got through” finds the check `blank` with the outcome `pass` in [the report](reports.md) of
the upload, or `off` where the context does not have `reject_blank_files`, or `would_fail` where `check_modes` has
`blank` as `report`. If a page like these was rejected, the rule was wrong: set `blank` to `report` or `quarantine`
([modes](reports.md#modes)), so that no such file is lost, and let the sender send it again.

The rule of each format, and how often it is wrong about scans and photos, are in [formats](formats.md#pictures). The
pictures below are drawn, and each of these files passes. [What counts as blank](blank.md) shows the other side.
"""


def blank_page() -> str:
    """Return the page of the files that are blank."""
    return _page(_BLANK, BLANK_EXAMPLES)


def not_blank_page() -> str:
    """Return the page of the files that are not."""
    return _page(_NOT_BLANK, NOT_BLANK_EXAMPLES)


def _page(intro: str, examples: Iterable[Example]) -> str:
    sections = [block for example in examples for block in _section(example)]
    sentence = render(f"{_REASON}.plain", {}, DEFAULT_LOCALE)
    source = made_from("inspect/tests/inspection/formats/blank_examples.py")
    return page(source, intro.format(sentence=sentence), *sections)


def _section(example: Example) -> tuple[str, ...]:
    picture = f"![{example.title}](images/blank/{example.kind}.jpg)" if example.has_picture else ""
    remark = (
        "" if example.part == WHOLE or "the picture shows" in example.why else " The picture shows a part of the page."
    )
    return f"## {example.title}", picture, f"{example.why}{remark}"
