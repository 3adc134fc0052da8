"""XLSX files without and with visible content, made by openpyxl."""

import io
from collections.abc import Callable
from functools import cache

import openpyxl
from openpyxl.chart import BarChart
from openpyxl.comments import Comment
from openpyxl.drawing.image import Image
from openpyxl.styles import Font, PatternFill
from openpyxl.worksheet.worksheet import Worksheet

from tests.inspection.formats.office_packages import package_of, parts_of, picture

Edit = Callable[[Worksheet], object]


def workbook(edit: Edit | None = None, *, second: Edit | None = None) -> bytes:
    opened = openpyxl.Workbook()
    if edit is not None:
        edit(opened.active)
    if second is not None:
        second(opened.create_sheet())
    file = io.BytesIO()
    opened.save(file)
    return file.getvalue()


def cell(value: object, where: str = "E5", **style: object) -> Edit:
    def edit(sheet: Worksheet) -> None:
        sheet[where] = value
        for name, each in style.items():
            setattr(sheet[where], name, each)

    return edit


def rows(*values: list[object]) -> Edit:
    return lambda sheet: [sheet.append(row) for row in values]


def hidden_sheet(sheet: Worksheet) -> None:
    sheet["A1"] = 1
    sheet.sheet_state = "hidden"


def hidden_row(sheet: Worksheet, *, filtered: bool = False) -> None:
    sheet["A3"] = 1
    sheet.row_dimensions[3].hidden = True
    if filtered:
        sheet.auto_filter.ref = "A1:B9"


def hidden_column(sheet: Worksheet) -> None:
    sheet["C1"] = 1
    sheet.column_dimensions["C"].hidden = True


OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def shared(*texts: str) -> bytes:
    """Return a workbook with one row of shared strings, which openpyxl does not write."""
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    strings = f'<sst xmlns="{space}">' + "".join(f"<si><r><t>{text}</t></r></si>" for text in texts) + "</sst>"
    cells = "".join(f'<c r="{chr(65 + index)}{index + 1}" t="s"><v>{index}</v></c>' for index in range(len(texts)))
    sheet = f'<worksheet xmlns="{space}"><sheetData><row>{cells}</row></sheetData></worksheet>'
    relation = f'<Relationship Id="s" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/></Relationships>'
    parts = parts_of(workbook())
    relations = parts["xl/_rels/workbook.xml.rels"].replace(b"</Relationships>", relation.encode())
    changes = {"xl/sharedStrings.xml": strings.encode(), "xl/worksheets/sheet1.xml": sheet.encode()}
    return package_of(parts | changes | {"xl/_rels/workbook.xml.rels": relations})


def with_related_part(kind: str, name: str, content: bytes, content_type: str) -> bytes:
    """Return a workbook whose sheet refers to a part that openpyxl does not write."""
    relation = f'<Relationship Id="r" Type="{OFFICE}/{kind}" Target="../{name}"/>'
    default = f'<Default Extension="{name.rpartition(".")[2]}" ContentType="{content_type}"/><Default'
    parts = parts_of(workbook())
    return package_of(
        parts
        | {"[Content_Types].xml": parts["[Content_Types].xml"].replace(b"<Default", default.encode(), 1)}
        | {
            "xl/worksheets/_rels/sheet1.xml.rels": f'<Relationships xmlns="{PACKAGE}">{relation}</Relationships>'.encode()
        }
        | {f"xl/{name}": content}
    )


def button() -> bytes:
    control = b'<xml xmlns:x="urn:schemas-microsoft-com:office:excel"><x:ClientData ObjectType="Button"/></xml>'
    drawing_type = "application/vnd.openxmlformats-officedocument.vmlDrawing"
    return with_related_part("vmlDrawing", "drawings/v.vml", control, drawing_type)


def background(*, shows: bool) -> bytes:
    return with_related_part("image", "media/back.png", picture(shows=shows).getvalue(), "image/png")


WHITE = Font(color="FFFFFFFF")


@cache
def blank() -> dict[str, bytes]:
    return {
        "new workbook": workbook(),
        "three sheets": workbook(second=lambda _sheet: None),
        "spaces": workbook(cell("  \u00a0")),
        "coloured cells": workbook(cell(None, fill=PatternFill("solid", fgColor="FFFF0000"))),
        "headings alone": workbook(rows(["id", "name", "amount"])),
        "headings on two sheets": workbook(rows(["id", "name"]), second=rows(["date", "total"])),
        "formula of an empty text": workbook(cell('=""')),
        "shared blank strings": shared(" ", "\u200b"),
        "value on a hidden sheet": workbook(second=hidden_sheet),
        "value in a hidden row": workbook(hidden_row),
        "value in a hidden column": workbook(hidden_column),
        "white number": workbook(cell(7, font=WHITE)),
        "number with an empty format": workbook(cell(7, number_format=";;;")),
        "white background": background(shows=False),
        "white picture": workbook(lambda sheet: sheet.add_image(Image(picture(shows=False)))),
    }


@cache
def content() -> dict[str, bytes]:
    return {
        "a number": workbook(cell(7)),
        "a zero": workbook(cell(0)),
        "a truth value": workbook(cell(False)),
        "one word": workbook(cell("x")),
        "headings and a row": workbook(rows(["id", "name"], [1, "a"])),
        "headings and a row of text": workbook(rows(["id", "name"], ["", "a"])),
        "one row that is no heading": workbook(rows(["Paris", "Rome"])),
        "one row with a digit": workbook(rows(["name", "room 12"])),
        "value on the second sheet": workbook(second=cell("x")),
        "formula": workbook(cell("=1+1")),
        "error": workbook(cell("#REF!")),
        "shared strings": shared(" ", "x"),
        "value in a filtered row": workbook(lambda sheet: hidden_row(sheet, filtered=True)),
        "white number on colour": workbook(cell(7, font=WHITE, fill=PatternFill("solid", fgColor="FF000000"))),
        "value after empty rows": workbook(cell("x", "A5000")),
        "background": background(shows=True),
        "picture": workbook(lambda sheet: sheet.add_image(Image(picture(shows=True)))),
        "red square": workbook(lambda sheet: sheet.add_image(Image(picture(shows=False, colour="red", side=32)))),
        "chart": workbook(lambda sheet: sheet.add_chart(BarChart())),
        "button": button(),
        "comment": workbook(cell(None, comment=Comment("please check", "me"))),
    }
