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
    ("body", "blank"),
    [
        ("", True),
        (sheet(row("<table:table-cell/>", more='table:number-rows-repeated="1048576"')), True),
        (sheet(row(cell(" \u00a0"))), True),
        (sheet(row(cell("", "table:formula='of:=\"\"'"))), True),
        (sheet(HEADINGS), True),
        (sheet(HEADINGS) + sheet(), True),
        (sheet(row(NUMBER), more='table:style-name="off"') + sheet(), True),
        (sheet(row(NUMBER, more='table:visibility="collapse"')), True),
        (sheet(row(NUMBER), columns='<table:table-column table:visibility="collapse"/>'), True),
        (sheet(row(cell("word", 'office:value-type="string" table:style-name="w"'))), True),
        (sheet(row('<table:table-cell table:style-name="A1"/>')), True),
        (sheet(row(cell("0", 'office:value-type="float" office:value="0"'))), False),
        (sheet(row(cell("", 'office:value-type="boolean" office:boolean-value="false"'))), False),
        (sheet() + sheet(row(NUMBER)), False),
        (sheet(row(cell("a text"))), False),
        (sheet(row("<table:table-cell office:value-type='string' office:string-value='a text'/>")), False),
        (sheet(HEADINGS, row(cell("Ann"))), False),
        (sheet(row(cell("Name"), cell("Date"), more='table:number-rows-repeated="3"')), False),
        (sheet(row("<table:table-cell table:formula='of:=[.A1]'/>")), False),
        (sheet(row(NUMBER, more='table:visibility="filter"')), False),
        (
            sheet(
                "<table:table-row-group>" + row(NUMBER, more='table:visibility="collapse"') + "</table:table-row-group>"
            ),
            False,
        ),
        (
            sheet(
                row(
                    cell("", "")
                    + "<table:table-cell><office:annotation><text:p>hm</text:p></office:annotation></table:table-cell>"
                )
            ),
            False,
        ),
        (sheet("<table:shapes><draw:frame><draw:object/></draw:frame></table:shapes>"), False),
        (sheet(row("<table:table-cell><draw:rect><text:p>x</text:p></draw:rect></table:table-cell>")), False),
        (sheet(row(NUMBER), columns='<table:table-column/><table:table-column table:visibility="collapse"/>'), False),
    ],
)
def test_spreadsheet_is_blank_without_values_or_with_headings_only(body: str, *, blank: bool) -> None:
    assert is_blank("spreadsheet", body, OFF + WHITE_CELL + LINED) is blank
