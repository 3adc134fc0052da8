"""OpenDocument spreadsheets: what is blank and what is content."""

from tests.inspection.formats.opendocument_samples import is_blank, style
from tests.rows import each_row

LINED = style(
    "A1", "table-cell", '<style:table-cell-properties fo:border-left="none" fo:border-top="0.5pt solid #000000"/>'
)


def cell(text: str = "", more: str = 'office:value-type="string"') -> str:
    return f"<table:table-cell {more}><text:p>{text}</text:p></table:table-cell>"


def row(*cells: str, more: str = "") -> str:
    return f"<table:table-row {more}>{''.join(cells)}</table:table-row>"


def sheet(*rows: str, more: str = "", columns: str = "") -> str:
    return f"<table:table {more}>{columns}{''.join(rows)}</table:table>"


OFF = style("off", "table", '<style:table-properties table:display="false"/>')
WHITE_CELL = style("w", "table-cell", '<style:text-properties fo:color="#ffffff"/>', "Default")
HEADINGS = row(cell("Name"), cell("Date"), cell("Amount"))
NUMBER = cell("1", 'office:value-type="float" office:value="1"')


@each_row(
    "body",
    [
        "",
        sheet(row("<table:table-cell/>", more='table:number-rows-repeated="1048576"')),
        sheet(row(cell(" \u00a0"))),
        sheet(row(cell("", "table:formula='of:=\"\"'"))),
        sheet(HEADINGS),
        sheet(HEADINGS) + sheet(),
        sheet(row(NUMBER), more='table:style-name="off"') + sheet(),
        sheet(row(NUMBER, more='table:visibility="collapse"')),
        sheet(row(NUMBER), columns='<table:table-column table:visibility="collapse"/>'),
        sheet(row(cell("word", 'office:value-type="string" table:style-name="w"'))),
        sheet(row('<table:table-cell table:style-name="A1"/>')),
    ],
)
def test_spreadsheet_without_values_or_with_headings_only_is_blank(body: str) -> None:
    assert is_blank("spreadsheet", body, OFF + WHITE_CELL + LINED)


@each_row(
    "body",
    [
        sheet(row(cell("0", 'office:value-type="float" office:value="0"'))),
        sheet(row(cell("", 'office:value-type="boolean" office:boolean-value="false"'))),
        sheet() + sheet(row(NUMBER)),
        sheet(row(cell("a text"))),
        sheet(row("<table:table-cell office:value-type='string' office:string-value='a text'/>")),
        sheet(HEADINGS, row(cell("Ann"))),
        sheet(row(cell("Name"), cell("Date"), more='table:number-rows-repeated="3"')),
        sheet(row("<table:table-cell table:formula='of:=[.A1]'/>")),
        sheet(row(NUMBER, more='table:visibility="filter"')),
        sheet("<table:table-row-group>" + row(NUMBER, more='table:visibility="collapse"') + "</table:table-row-group>"),
        sheet(
            row(
                cell("", "")
                + "<table:table-cell><office:annotation><text:p>hm</text:p></office:annotation></table:table-cell>"
            )
        ),
        sheet("<table:shapes><draw:frame><draw:object/></draw:frame></table:shapes>"),
        sheet(row("<table:table-cell><draw:rect><text:p>x</text:p></draw:rect></table:table-cell>")),
        sheet(row(NUMBER), columns='<table:table-column/><table:table-column table:visibility="collapse"/>'),
    ],
)
def test_spreadsheet_with_visible_content_is_not_blank(body: str) -> None:
    assert not is_blank("spreadsheet", body, OFF + WHITE_CELL)
