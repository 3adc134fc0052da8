"""PPTX files without and with visible content, made by python-pptx."""

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import pptx
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.enum.shapes import MSO_CONNECTOR, MSO_SHAPE
from pptx.oxml import parse_xml
from pptx.slide import Slide
from pptx.util import Inches

from tests.inspection.formats.office_packages import picture

Edit = Callable[[Slide], object]
BOX = (Inches(1), Inches(1), Inches(2), Inches(2))
OFF_SLIDE = (Inches(40), Inches(1), Inches(2), Inches(2))
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def presentation(*edits: Edit, layout: int = 6) -> bytes:
    opened = pptx.Presentation()
    for edit in edits:
        edit(opened.slides.add_slide(opened.slide_layouts[layout]))
    file = io.BytesIO()
    opened.save(file)
    return file.getvalue()


def nothing(_slide: Slide) -> None:
    """Leave the slide as its layout makes it."""


def text_box(text: str, box: tuple[Inches, ...] = BOX) -> Edit:
    def edit(slide: Slide) -> None:
        slide.shapes.add_textbox(*box).text_frame.text = text

    return edit


def field(field_type: str) -> Edit:
    def edit(slide: Slide) -> None:
        paragraph = slide.shapes.add_textbox(*BOX).text_frame.paragraphs[0]
        identity = "{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}"
        paragraph._p.append(parse_xml(f'<a:fld {A} id="{identity}" type="{field_type}"><a:t>3</a:t></a:fld>'))

    return edit


def shape(*, hidden: bool = False, bare: bool = False, box: tuple[Inches, ...] = BOX) -> Edit:
    def edit(slide: Slide) -> None:
        added = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, *box)
        if hidden:
            added._element.xpath(".//p:cNvPr")[0].set("hidden", "1")
        if bare:
            added.fill.background()
            added.line.fill.background()

    return edit


def image(*, shows: bool) -> Edit:
    return lambda slide: slide.shapes.add_picture(picture(shows=shows), *BOX)


def notes(text: str) -> Edit:
    def edit(slide: Slide) -> None:
        frame = slide.notes_slide.notes_text_frame
        assert frame is not None
        frame.text = text

    return edit


def chart(slide: Slide) -> None:
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]  # python-pptx types half of itself
    data.categories = ["a"]
    data.add_series("b", (1.0,))
    slide.shapes.add_chart(XL_CHART_TYPE.PIE, *BOX, data)


def title(slide: Slide) -> None:
    assert slide.shapes.title is not None
    slide.shapes.title.text_frame.text = "x"


def text_in_a_group(slide: Slide) -> None:
    slide.shapes.add_group_shape().shapes.add_textbox(*BOX).text_frame.text = "x"


@cache
def blank() -> dict[str, bytes]:
    return {
        "no slides": presentation(),
        "empty slides": presentation(nothing, nothing),
        "unfilled placeholders": presentation(nothing, layout=0),
        "empty text box": presentation(text_box("")),
        "text box of spaces": presentation(text_box(" \u00a0\u200b")),
        "white picture": presentation(image(shows=False)),
        "hidden shape": presentation(shape(hidden=True)),
        "shape without line and fill": presentation(shape(bare=True)),
        "shape beside the slide": presentation(shape(box=OFF_SLIDE)),
        "text beside the slide": presentation(text_box("x", OFF_SLIDE)),
        "slide number": presentation(field("slidenum")),
        "date": presentation(field("datetime1")),
        "empty notes": presentation(notes(" ")),
    }


@cache
def content() -> dict[str, bytes]:
    return {
        "one letter": presentation(text_box("x")),
        "filled placeholder": presentation(title, layout=0),
        "text on the last slide": presentation(*[nothing] * 30, text_box("x")),
        "text above a hidden shape": presentation(lambda slide: [shape(hidden=True)(slide), text_box("x")(slide)]),
        "shape": presentation(shape()),
        "line": presentation(lambda slide: slide.shapes.add_connector(MSO_CONNECTOR.STRAIGHT, *BOX)),
        "picture": presentation(image(shows=True)),
        "table": presentation(lambda slide: slide.shapes.add_table(2, 2, *BOX)),
        "chart": presentation(chart),
        "notes": presentation(notes("say hello")),
        "text in a group": presentation(text_in_a_group),
    }
