"""PDF: what is blank and what is content."""

import io
import time
from collections.abc import Iterable, Mapping
from functools import cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from sluice_inspect.formats.pdf.format import FORMAT
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import Row, examine_bytes, verdicts
from tests.inspection.formats.pdf_samples import pdf, stream, text
from tests.inspection.growth import slowness
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)


@cache
def paper() -> NDArray[np.uint8]:
    return np.random.default_rng(1).normal(240, 3, (1100, 780)).clip(0, 255).astype(np.uint8)


def inked_paper() -> NDArray[np.uint8]:
    pixels = paper().copy()
    pixels[500:512, 300:304] = 40
    pixels[500:503, 300:340] = 40
    return pixels


def scan(pixels: NDArray[np.uint8], under: str = "", over: str = "") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=75)
    height, width = pixels.shape
    entries = f"/Type/XObject/Subtype/Image/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/DCTDecode"
    content = f"{under} q 595 0 0 842 0 0 cm /I Do Q {over}"
    return pdf(content, resources="/XObject<</I 100 0 R>>", objects={100: stream(file.getvalue(), entries)})


def annotated(entries: str, appearance: str = "") -> bytes:
    form = stream(appearance.encode(), "/Type/XObject/Subtype/Form/BBox[0 0 100 100]")
    shown = "/AP<</N 101 0 R>>" if appearance else ""
    note = f"<</Type/Annot/Rect[100 100 200 200]{shown}{entries}>>"
    return pdf("", page="/Annots[100 0 R]", objects={100: note, 101: form})


def in_missing_font(ordering: str, encoding: str, letters: str) -> bytes:
    """Return a page with words in a font that is neither in the file nor on the machine."""
    font = f"<</Type/Font/Subtype/Type0/BaseFont/Missing/Encoding/{encoding}/DescendantFonts[100 0 R]>>"
    descendant = (
        "<</Type/Font/Subtype/CIDFontType0/BaseFont/Missing/CIDSystemInfo<</Registry(Adobe)"
        f"/Ordering({ordering})/Supplement 4>>/FontDescriptor 101 0 R>>"
    )
    metrics = "/Flags 4/FontBBox[0 0 1 1]/ItalicAngle 0/Ascent 1/Descent 0/CapHeight 1/StemV 1"
    objects = {5: font, 100: descendant, 101: f"<</Type/FontDescriptor/FontName/Missing{metrics}>>"}
    return pdf(f"BT /F 20 Tf 100 500 Td <{letters}> Tj ET", objects=objects)


LAYER_OFF = "/OCProperties<</OCGs[100 0 R]/D<</OFF[100 0 R]/Order[100 0 R]>>>>"
LAYER = "/Properties<</L 100 0 R>>"
GRADIENT = (
    "<</ShadingType 2/ColorSpace/DeviceGray/Coords[0 0 595 0]/Function<</FunctionType 2/Domain[0 1]/N 1/C0[0]/C1[1]>>>>"
)
FIELD = "/AcroForm<</Fields[100 0 R]/NeedAppearances true>>"
ATTACHMENTS = "/Names<</EmbeddedFiles<</Names[(a) 100 0 R]>>>>"


def blank() -> list[tuple[str, bytes]]:
    on_layer = f"/OC /L BDC {text('secret')} EMC"
    return [
        ("no content", pdf("")),
        ("five pages", pdf(*[""] * 5)),
        ("white text", pdf(text("secret", before="1 g"))),
        ("invisible text", pdf(text("secret", before="3 Tr"))),
        ("text off the page", pdf(text("secret", at=(900, 500)))),
        ("clipped text", pdf("q 0 0 10 10 re W n " + text("secret") + " Q")),
        ("words smaller than a pixel under white", pdf(text("micro", size=0.3) + " 1 g 0 0 595 842 re f")),
        ("text under a scan of an empty sheet", scan(paper(), under=text("word"))),
        ("text under white", pdf(text("secret") + " 1 g 0 0 595 842 re f")),
        ("layer that is off", pdf(on_layer, catalog=LAYER_OFF, resources=LAYER, objects={100: "<</Type/OCG/Name(L)>>"})),
        ("solid black", pdf("0 g 0 0 595 842 re f")),
        ("page numbers", pdf(*(text(str(number), at=(297, 30)) for number in (1, 2, 3)))),
        ("page numbers in words", pdf(*(text(f"Page {number} of 2", at=(280, 800)) for number in (1, 2)))),
        ("scan of an empty sheet", scan(paper())),
        ("scan of an empty sheet with invisible text", scan(paper(), over=text("secret", before="3 Tr"))),
        ("hidden note", annotated("/Subtype/Text/F 2/Contents(secret)")),
        ("link", annotated("/Subtype/Link/Contents(elsewhere)")),
        ("three hundred empty pages", pdf(*[""] * 300)),
        ("white tiles", tiled(10, 10)),
        ("white tiles of a point", tiled(1, 1)),
        ("white tiles with gaps, twenty times", tiled(12, 10, times=20)),
        ("computed white", shaded(WHITE)),
    ]  # fmt: skip


def content() -> list[tuple[str, bytes]]:
    return [
        ("one small word", pdf(text("ok", size=8))),
        ("a full stop", pdf(text(".", size=6))),
        ("on the last page", pdf(*[""] * 20, text("ok"))),
        ("hairline", pdf("0 w 100 400 m 300 400 l S")),
        ("pale grey", pdf("0.97 g 100 400 50 50 re f")),
        ("yellow on white", pdf("1 1 0 rg 100 400 50 50 re f")),
        ("text on white in an odd mode", pdf(text("outline", before="1 Tr 1 g"))),
        ("number in the middle", pdf(text("1", at=(297, 400)))),
        ("other number at the foot", pdf(text("17", at=(297, 30)))),
        ("small text on a large page", pdf(text("ok", at=(2000, 2000)), box=(0, 0, 3370, 4768))),
        ("text on a huge page", pdf(text("ok", at=(2000, 2000), size=6), box=(0, 0, 14000, 14000))),
        ("dot on a tiny page", pdf("10 10 1 1 re f", box=(0, 0, 40, 20))),
        ("scan with ink", scan(inked_paper())),
        ("shading", pdf("/S sh", resources=f"/Shading<</S{GRADIENT}>>")),
        ("inline picture", pdf("q 90 0 0 90 100 100 cm BI /W 2 /H 2 /CS /G /BPC 8 ID \x00\x7f\x7f\x00 EI Q")),
        ("stamp with an appearance", annotated("/Subtype/Stamp", "1 0 0 rg 0 0 100 100 re f")),
        ("drawing", annotated("/Subtype/Ink/InkList[[100 100 200 200]]/C[1 0 0]", "1 0 0 RG 0 0 m 100 100 l S")),
        ("note", annotated("/Subtype/Text/Contents(please check)")),
        ("filled field without an appearance", pdf("", catalog=FIELD, objects={100: "<</FT/Tx/T(a)/V(Smith)>>"})),
        ("attachment", pdf("", catalog=ATTACHMENTS, objects={100: "<</Type/Filespec/F(a)>>"})),
        ("words smaller than a pixel", pdf(text("micro", size=0.3))),
        ("pale words on a scan of an empty sheet", scan(paper(), over=text("word", before="0.85 g"))),
        ("missing font, GB1 by UniGB-UCS2-H", in_missing_font("GB1", "UniGB-UCS2-H", "4E2D6587")),
        ("missing font, GB1 by GBK-EUC-H", in_missing_font("GB1", "GBK-EUC-H", "D6D0CEC4")),
        ("missing font, GB1 by Identity-H", in_missing_font("GB1", "Identity-H", "115F0FC7")),
        ("missing font, Japan1 by 90ms-RKSJ-H", in_missing_font("Japan1", "90ms-RKSJ-H", "93FA967B")),
        ("missing font, Japan1 by Identity-H", in_missing_font("Japan1", "Identity-H", "0E8A0D8A")),
        ("missing font, Korea1 by KSCms-UHC-H", in_missing_font("Korea1", "KSCms-UHC-H", "C7D1B1B9")),
        ("missing font, CNS1 by ETen-B5-H", in_missing_font("CNS1", "ETen-B5-H", "A4A4A4E5")),
        ("missing font, Identity by Identity-H", in_missing_font("Identity", "Identity-H", "00410042")),
    ]


@verdicts(FORMAT)
def test_document_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for case, data in blank():
        yield case, data, "blank"
    for case, data in content():
        yield case, data, "ok"


def test_document_of_thousands_of_empty_pages_is_not_rendered() -> None:
    assert examine(pdf(*[""] * 3000)).blank is None


WHITE = "{ pop pop 1 1 1 }"


def tiled(step: float, box: float, *, times: int = 1, matrix: str = "1 0 0 1 0 0") -> bytes:
    """Return a page that is filled with white tiles."""
    entries = (
        f"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/Matrix[{matrix}]/BBox[0 0 {box} {box}]"
        f"/XStep {step}/YStep {step}/Resources<<>>"
    )
    tile = stream(f"1 g 0 0 {box} {box} re f".encode(), entries)
    return pdf("/Pattern cs /P scn 0 0 595 842 re f " * times, resources="/Pattern<</P 100 0 R>>", objects={100: tile})


def shaded(code: str, *, times: int = 1, packed: bool = False) -> bytes:
    """Return a page that is painted with a colour which a function computes."""
    function = stream(code.encode(), "/FunctionType 4/Domain[0 1 0 1]/Range[0 1 0 1 0 1]", packed=packed)
    shading = "<</ShadingType 1/ColorSpace/DeviceRGB/Matrix[595 0 0 842 0 0]/Function 101 0 R>>"
    return pdf("/S sh " * times, resources="/Shading<</S 100 0 R>>", objects={100: shading, 101: function})


@pytest.mark.asvs("15.2.2")
@each_row(
    "data",
    [
        tiled(0.01, 1),
        tiled(-0.01, 0.011),
        tiled(1, 100, matrix="0.01 0 0 0.01 0 0"),
        tiled(0.5, 1, times=900),
        tiled(0.000001, 0.000001),
        tiled(0, 0),
        shaded(WHITE, times=900),
        shaded("{ " + "2 copy mul sin pop " * 500 + "pop pop 1 1 1 }", packed=True),
    ],
)
def test_page_that_is_costly_to_draw_is_taken_for_content_without_drawing_it(data: bytes) -> None:
    started = time.process_time()
    assert examine(data).blank is None
    assert time.process_time() - started < 1


def drawn_form(content: str, resources: str = "", entries: str = "") -> bytes:
    return stream(content.encode(), f"/Type/XObject/Subtype/Form/BBox[0 0 595 842]{entries}{resources}")


GROUP = "/Group<</S/Transparency/I true>>"
FILLED = "1 g 0 0 595 842 re f\n"
PICTURE = stream(b"\xff" * 100 * 100, "/Subtype/Image/Width 100/Height 100/ColorSpace/DeviceGray/BitsPerComponent 8{}")


def groups(
    draws: str, levels: int = 12, resources: str = "/Resources<</XObject<</F {} 0 R>>>>"
) -> Mapping[int, bytes | str]:
    """Return forms from object 100 on, each of which draws the next one."""
    inner = {100 + at: drawn_form(draws, resources.format(101 + at), GROUP) for at in range(levels)}
    return {**inner, 100 + levels: drawn_form(FILLED, entries=GROUP)}


@each_row(
    ("case", "data"),
    [
        ("groups", pdf("/F Do", resources="/XObject<</F 100 0 R>>", objects=groups("/F Do " * 2))),
        ("a comment", pdf("/F Do", resources="/XObject<</F 100 0 R>>", objects=groups("/F%\nDo " * 2))),
        ("an escaped name", pdf("/F Do", resources="/XObject<</F 100 0 R>>", objects=groups("/#46 Do " * 2))),
        (
            "resources of the page",
            pdf(
                "/F Do",
                resources="/XObject<</F 100 0 R/G 101 0 R>>",
                objects={100: drawn_form("/G Do " * 200), 101: drawn_form(FILLED * 200, entries=GROUP)},
            ),
        ),
        (
            "a mask",
            pdf(
                "/G gs " + FILLED * 20,
                resources="/ExtGState<</G<</SMask<</S/Luminosity/G 100 0 R>>>>>>",
                objects={100: drawn_form(FILLED * 1000, entries=GROUP)},
            ),
        ),
        ("blended objects", pdf("/G gs " + FILLED * 100, resources="/ExtGState<</G<</BM/Multiply/ca 0.5>>>>")),
        (
            "pictures with masks",
            pdf(
                "q 595 0 0 842 0 0 cm " + "/I Do " * 1500 + "Q",
                resources="/XObject<</I 100 0 R>>",
                objects={
                    100: PICTURE.replace(b"{}", b"/SMask 101 0 R"),
                    101: PICTURE.replace(b"{}", b""),
                },
            ),
        ),
        (
            "glyphs",
            pdf(
                f"BT /T 800 Tf ({'A' * 300}) Tj ET",
                resources="/Font<</T 100 0 R>>",
                objects={
                    100: "<</Type/Font/Subtype/Type3/FontBBox[0 0 1 1]/FontMatrix[1 0 0 1 0 0]/FirstChar 65/LastChar 65"
                    "/Widths[0]/Encoding<</Differences[65/a]>>/CharProcs<</a 101 0 R>>"
                    "/Resources<</XObject<</F 102 0 R>>>>>>",
                    101: stream(b"1 0 d0 /F Do"),
                    102: drawn_form(FILLED, entries=GROUP),
                },
            ),
        ),
        (
            "an annotation",
            pdf(
                "",
                page="/Annots[<</Type/Annot/Subtype/Stamp/Rect[0 0 595 842]/AP<</N 100 0 R>>>>]",
                objects=groups("/F Do " * 2),
            ),
        ),
    ],
)
def test_page_of_many_layers_is_taken_for_content_without_drawing_it(case: str, data: bytes) -> None:
    began = time.process_time()
    examined = examine(data)
    assert (examined.outcome, examined.blank) == (Outcome.OK, None), case
    assert time.process_time() - began < slowness(), case


def test_page_with_some_layers_that_show_nothing_is_blank() -> None:
    drawn = groups("/F Do " * 2, levels=3)
    assert examine(pdf("/F Do", resources="/XObject<</F 100 0 R>>", objects=drawn)).blank
    blended = pdf("/G gs " + FILLED * 5, resources="/ExtGState<</G<</BM/Multiply>>>>")
    assert examine(blended).blank


@pytest.mark.parametrize(("deviation", "is_blank"), [(3.0, True), (70.0, False)])
def test_picture_finer_than_the_page_is_rough_if_it_is_noise_and_not_if_it_is_paper(
    deviation: float,
    is_blank: bool,  # noqa: FBT001  (a row of the table)
) -> None:
    side = 3200
    grains = np.random.default_rng(7).normal(200, deviation, (64, side))
    levels = np.tile(np.clip(grains, 0, 255).astype(np.uint8), (side // 64, 1)).tobytes()
    picture = f"/Subtype/Image/Width {side}/Height {side}/ColorSpace/DeviceGray/BitsPerComponent 8"
    page = pdf(
        "600 0 0 600 0 0 cm /I Do",
        resources="/XObject<</I 100 0 R>>",
        box=(0, 0, 600, 600),
        objects={100: stream(levels, picture, packed=True)},
    )
    assert (examine(page).blank is not None) is is_blank
