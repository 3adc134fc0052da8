"""The examples of docs/blank.md and docs/not-blank.md are judged as the pages say, and look as their pictures show."""

import io
from collections.abc import Iterable

from sluice_inspect import inspect
from tests.inspection.formats.blank_examples import BLANK_EXAMPLES, NOT_BLANK_EXAMPLES, Example, looks_like, thumbnail
from tests.repository import ROOT
from tests.rows import each_row
from tests.run_length import LONG_RUN

PICTURES = ROOT / "docs" / "images" / "blank"
# One of each mechanism; `test_blank_scans.py` draws other traces of light, edges, creases, corners, streaks and dust.
SHORT = {
    "white_page", "hand_shadow", "lid_border", "punch_holes", "staples", "bleed_through", "lens_cap", "white_space", "silence",
    "signature", "word", "tick", "faint_text", "rule", "ruled", "dark_mode", "receipt", "stars", "horizon",
}  # fmt: skip


def judged(examples: Iterable[Example]) -> list[Example]:
    """Return the examples that this run judges: all of them in a long one."""
    return [each for each in examples if LONG_RUN or each.kind in SHORT]


def outcome_of(example: Example) -> str:
    encoded = example.encoded()
    if example.has_picture:
        picture = PICTURES / f"{example.kind}.jpg"
        assert looks_like(picture, thumbnail(example, encoded)), f"{picture.name} is stale: run `make docs`"
    return inspect(io.BytesIO(encoded), filename=example.filename).outcome


@each_row("example", judged(BLANK_EXAMPLES))
def test_example_of_what_is_blank_is_blank(example: Example) -> None:
    assert outcome_of(example) == "blank"


@each_row("example", judged(NOT_BLANK_EXAMPLES))
def test_example_of_what_is_not_blank_passes(example: Example) -> None:
    assert outcome_of(example) == "ok"


def test_pages_have_twenty_examples_each_and_no_other_pictures() -> None:
    assert (len(BLANK_EXAMPLES), len(NOT_BLANK_EXAMPLES)) == (20, 20)
    pictures = list(PICTURES.iterdir())
    shown = {f"{each.kind}.jpg" for each in (*BLANK_EXAMPLES, *NOT_BLANK_EXAMPLES) if each.has_picture}
    assert {path.name for path in pictures} == shown
    assert sum(path.stat().st_size for path in pictures) < 300_000
