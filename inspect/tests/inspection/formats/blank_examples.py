"""The examples of docs/blank.md and docs/not-blank.md: twenty files that are blank, twenty that are not, and why."""

import io
import wave
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, ImageChops, ImageOps, ImageStat

from tests.inspection.formats.scan_samples import draw_scan

Part = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of a page."""
WHOLE: Final = (0.0, 0.0, 1.0, 1.0)
THUMBNAIL: Final = (180, 250)
"""The largest width and height of a picture in the documentation, in pixels."""


@dataclass(frozen=True, slots=True)
class Example:
    """A file, its name in plain words, and one sentence that says why it is blank, or why not.

    `kind` and `seed` are those of `draw_scan`; without a seed the file is made by `_OTHERS`. `part` is what the picture
    in the documentation shows.
    """

    kind: str
    title: str
    why: str
    seed: int | None = None
    part: Part = WHOLE
    plugin: str = "JPEG"

    @property
    def filename(self) -> str:
        """Return the name under which the file is judged."""
        return f"{self.kind}.{self.plugin.lower()}"

    @property
    def has_picture(self) -> bool:
        """Return whether the documentation shows the file."""
        return self.plugin in {"JPEG", "PNG"}

    def encoded(self) -> bytes:
        """Return the file."""
        if self.seed is None:
            return _OTHERS[self.kind]()
        return draw_scan(self.kind, self.seed).encoded(self.plugin)


def thumbnail(example: Example, encoded: bytes) -> Image.Image:
    """Return the part of an example that the documentation shows, small and in a grey frame."""
    with Image.open(io.BytesIO(encoded)) as opened:
        page = opened.convert("RGB")
    left, top, right, bottom = example.part
    box = (round(left * page.width), round(top * page.height), round(right * page.width), round(bottom * page.height))
    shown = page.crop(box)
    shown.thumbnail((THUMBNAIL[0] - 2, THUMBNAIL[1] - 2), Image.Resampling.LANCZOS)
    return ImageOps.expand(shown, border=1, fill=(150, 150, 150))


def looks_like(path: Path, picture: Image.Image) -> bool:
    """Return whether a file shows a picture: encoders and decoders of JPEG differ by a few levels from each other."""
    with Image.open(path) as opened:
        present = opened.convert("RGB")
    return present.size == picture.size and max(ImageStat.Stat(ImageChops.difference(present, picture)).mean) < 3


def _empty_paragraphs() -> bytes:
    from tests.inspection.formats.docx_samples import document  # noqa: PLC0415  (its samples take a second)

    return document(lambda opened: [opened.add_paragraph() for _ in range(20)])


def _empty_sheets() -> bytes:
    from tests.inspection.formats.xlsx_samples import workbook  # noqa: PLC0415  (likewise)

    return workbook(second=lambda _: None)


def _white_page() -> bytes:
    file = io.BytesIO()
    Image.new("L", (620, 877), 255).save(file, "JPEG")
    return file.getvalue()


def _silent_recording() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(8000)
        recording.writeframes(bytes(2 * 8000 * 10))
    return file.getvalue()


_OTHERS: Final[Mapping[str, Callable[[], bytes]]] = {
    "white_page": _white_page,
    "empty_paragraphs": _empty_paragraphs,
    "empty_sheets": _empty_sheets,
    "white_space": lambda: b" \t\r\n" * 200,
    "silence": _silent_recording,
}

BLANK_EXAMPLES: Final = (
    Example("white_page", "Clean white page", "Every point of the page has the same colour."),
    Example(
        "edge_shadow",
        "Dark edges of a scanner",
        "Shadows along the edges of the sheet come from the scanner.",
        seed=3,
    ),
    Example(
        "lid_border",
        "Dark lid around a page",
        "The sheet lies askew and is smaller than the glass, so the dark lid shows around it.",
        seed=12,
    ),
    Example(
        "uneven_lamp",
        "Light of a lamp",
        "The page is brighter on one side; light without a sharp edge is no mark.",
        seed=0,
    ),
    Example(
        "hand_shadow",
        "Shadow of a hand",
        "A soft shadow fell on the page while it was photographed.",
        seed=9,
    ),
    Example(
        "punch_holes",
        "Punch holes",
        "Round spots of one size in a row along an edge, spaced as punches space them, are holes.",
        seed=9,
    ),
    Example(
        "spiral_pad",
        "Holes of a spiral pad",
        "A regular row of small holes along an edge is where the page was torn from a pad.",
        seed=17,
    ),
    Example(
        "crossfolds",
        "Folds, down and across",
        "Straight lines that run from one edge of the page to the other are folds.",
        seed=5,
    ),
    Example(
        "crumpled",
        "Crumpled and smoothed",
        "Creases in all directions shade the paper, but nothing is written on it.",
        seed=16,
    ),
    Example(
        "turned_corner",
        "Turned corner",
        "A corner that is folded over or missing shows what lies behind the page.",
        seed=23,
    ),
    Example(
        "staples",
        "Staple in a corner",
        "A short stroke as long as a staple, in an upper corner, is a staple.",
        seed=25,
        part=(0, 0, 0.4, 0.3),
    ),
    Example(
        "streaks",
        "Streaks of a feeder",
        "Dirt on the glass of a feeder draws straight lines over the whole length of the page.",
        seed=12,
    ),
    Example(
        "dust",
        "Dust on the glass",
        "A few lone specks, each smaller than a full stop, are dust.",
        seed=9,
        part=(0.3, 0.35, 0.8, 0.85),
    ),
    Example(
        "bleed_through",
        "Text that shines through",
        "The text of the other side is faint, blurred and mirrored, so it is not the text of this page.",
        seed=4,
    ),
    Example(
        "heavy_jpeg",
        "Heavy compression",
        "The steps and blocks come from saving the picture as a very small JPEG.",
        seed=6,
    ),
    Example(
        "lens_cap",
        "Photo with the lens cap on",
        "The picture is black but for the noise of the camera.",
        seed=18,
    ),
    Example(
        "empty_paragraphs",
        "DOCX with empty paragraphs",
        "The document has twenty paragraphs, and there is no text, picture or table in them.",
        plugin="DOCX",
    ),
    Example(
        "empty_sheets",
        "XLSX with empty sheets",
        "The workbook has two sheets, and no cell in them has a value.",
        plugin="XLSX",
    ),
    Example(
        "white_space",
        "TXT of white space",
        "The file has 800 characters, all of them spaces, tabs and line ends.",
        plugin="TXT",
    ),
    Example(
        "silence",
        "Silent WAV",
        "The recording lasts ten seconds, and there is no sound in it.",
        plugin="WAV",
    ),
)

NOT_BLANK_EXAMPLES: Final = (
    Example(
        "pencil",
        "Pencil mark",
        "A line that ends on the page is no fold and no streak, even if it is faint.",
        seed=4,
        part=(0.2, 0, 1, 0.57),
    ),
    Example("signature", "Signature", "A signature alone can be the whole message.", seed=11),
    Example(
        "stamp", "Stamp", "A stamp says that somebody received or approved something.", seed=6, part=(0, 0.6, 0.7, 1)
    ),
    Example(
        "page_number",
        "Page number alone",
        "The rule does not read: a number is a mark like any other.",
        seed=10,
        part=(0.5, 0.62, 1, 1),
    ),
    Example("word", "Single word", "One word is an answer.", seed=11),
    Example(
        "tick",
        "Tick",
        "A tick in a box is an answer, though it covers little of the page.",
        seed=13,
        part=(0.4, 0.15, 1, 0.6),
    ),
    Example("faint_text", "Faint text", "The letters are pale but sharp, and they are not mirrored.", seed=4),
    Example(
        "rule",
        "Printed line",
        "The line ends at the margins, which a fold or a streak does not; it may belong to a form.",
        seed=13,
    ),
    Example(
        "bullet",
        "Spot away from the edges",
        "It has the size of a punch hole, but no punch reaches this far.",
        seed=19,
    ),
    Example(
        "corner_word",
        "Word in a corner",
        "Corners and margins are searched for marks too: staples and holes have other shapes.",
        seed=9,
        part=(0, 0, 0.4, 0.28),
    ),
    Example("ruled", "Ruled paper", "What is printed may be a form, and the rule cannot tell.", seed=10),
    Example("squared", "Squared paper", "A printed grid may be a table or a form.", seed=5),
    Example("dotted", "Dotted paper", "The dots are regular and all over the page, so they are no dust.", seed=9),
    Example(
        "headed",
        "Headed paper",
        "The name of the company is text, even with nothing below it.",
        seed=3,
        part=(0, 0, 0.6, 0.4),
    ),
    Example(
        "dark_mode",
        "Screenshot in dark mode",
        "Light text on a dark background is text.",
        seed=0,
        plugin="PNG",
    ),
    Example(
        "underexposed",
        "Page in too little light",
        "The photo is nearly black, but the lines of text are darker than the paper.",
        seed=3,
        part=(0, 0.05, 0.8, 0.6),
    ),
    Example(
        "receipt",
        "Faded receipt",
        "Thermal print fades, and what is left can still be read.",
        seed=3,
        part=(0, 0, 1, 0.5),
    ),
    Example(
        "tiny_letters",
        "Tiny letters on a large sheet",
        "A few small letters are found on a drawing sheet too; the picture shows a hundredth of it.",
        seed=6,
        part=(0.78, 0.9, 0.9, 0.975),
    ),
    Example("stars", "Stars", "Points of light that are larger than the noise of the camera are a picture.", seed=5),
    Example(
        "horizon",
        "Horizon",
        "The edge between sky and sea runs across the picture as a fold does, but its two sides differ.",
        seed=7,
    ),
)
