"""SVG: integrity, safety and blankness."""

import base64

from sluice_inspect.formats.svg import FORMAT
from sluice_inspect.images.raster import sample_picture
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes, source_of
from tests.rows import each_row

DOT = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PICTURE = base64.b64encode(sample_picture("PNG")).decode()


def drawing(body: str, root: str = "", front: str = "") -> bytes:
    return f'{front}<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100" {root}>{body}</svg>'.encode()


def examine(body: str, root: str = "", front: str = "") -> Examined:
    return examine_bytes(FORMAT, drawing(body, root, front))


@each_row(
    "front",
    [
        "",
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n',
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" [<!ENTITY ns "http://a">]>',
    ],
)
def test_drawing_is_sound_and_not_blank(front: str) -> None:
    result = examine("<path d='M0 0L9 9' stroke='black'/>", front=front)
    assert (result.outcome, result.blank) == (Outcome.OK, None)


@each_row(
    "data",
    [drawing("<g>"), drawing("<g></p>"), drawing("a & b"), drawing("")[:-3], b"<svg", b"no drawing", drawing("\0")],
)
def test_malformed_or_other_xml_is_corrupt(data: bytes) -> None:
    assert examine_bytes(FORMAT, data).outcome is Outcome.CORRUPT
    result = examine_bytes(FORMAT, b"<?xml version='1.0'?><feed><entry>1</entry></feed>")
    assert result.outcome is Outcome.CORRUPT
    assert "its root is feed" in result.detail


def test_entities_in_other_files_are_counted_and_not_loaded() -> None:
    with source_of(drawing("<text>&x;</text>", front='<!DOCTYPE svg [<!ENTITY x SYSTEM "other.xml">]>')) as source:
        assert FORMAT.examine(source, Limits()).measures["external_entities"] == 1


def test_entities_that_multiply_or_have_an_absolute_address_are_refused() -> None:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    multiplied = examine("<text>&l11;</text>", front=f'<!DOCTYPE svg [<!ENTITY l0 "laugh">{entities}]>')
    assert multiplied.finding is Finding.ARCHIVE_BOMB
    outside = examine("<text>&x;</text>", front='<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>')
    assert outside.finding is Finding.ARCHIVE_UNSAFE


@each_row(
    ("body", "blank"),
    [
        ("", True),
        ("<title>t</title><desc>nothing</desc><defs/><g></g>", True),
        ("<metadata><a:Work xmlns:a='http://a'>text</a:Work></metadata>", True),
        ("<defs><path d='M0 0L9 9'/><text>word</text></defs>", True),
        ("<clipPath><rect width='9' height='9'/></clipPath>", True),
        ("<g display='none'><path d='M0 0L9 9' stroke='red'/></g>", True),
        ("<g style='display:none'><text>word</text></g>", True),
        ("<g visibility='hidden'><rect width='9' height='9'/></g>", True),
        ("<rect width='9' height='9' fill='none'/>", True),
        ("<g fill='none'><rect width='9' height='9'/></g>", True),
        ("<rect width='9' height='9' style='fill: rgba(0, 0, 0, 0)'/>", True),
        (
            "<rect width='9' height='9' fill='rgb(10% 20% 30% / 0%)'/><rect width='9' height='9' fill='hsla(0, 0%, 0%, .0)'/>",
            True,
        ),
        ("<rect width='9' height='9' opacity='0.0'/>", True),
        ("<rect width='9' height='9' fill='red' fill-opacity='0'/>", True),
        ("<rect width='9' height='9' fill='none' stroke='red' stroke-width='0'/>", True),
        ("<rect width='0' height='9'/><circle r='0'/><path d=''/><path d='M 1 1'/><polygon points='1,1'/>", True),
        ("<line x2='9'/>", True),
        ("<text> \u200b\u00a0</text>", True),
        ("<g font-size='0'><text>word</text></g>", True),
        ("<g marker-end='url(#m)'><path d='M5 5L9 9' fill='none' style='marker-end: none'/></g>", True),
        ("<image href=''/>", True),
        (f"<image width='9' height='9' href='data:image/gif;base64,{DOT}'/>", True),
        ("<rect width='100%' height='100%' fill='white'/>", True),
        ("<rect x='-1' y='-1' width='200' height='200' fill='#123456'/>", True),
        ("<line x2='9' stroke='black'/>", False),
        ("<text>word</text>", False),
        ("<text><tspan>word</tspan></text>", False),
        ("<circle r='1'/>", False),
        ("<ellipse rx='1' ry='2'/>", False),
        ("<polyline points='0,0 9,9' stroke='red'/>", False),
        ("<path d='M0 0 9 9' stroke='red'/>", False),
        ("<path d='m1,1,5,5' stroke='red'/>", False),
        ("<g visibility='hidden'><rect visibility='visible' width='9' height='9'/></g>", False),
        ("<g fill='none'><rect width='9' height='9' fill='red'/></g>", False),
        ("<rect width='9' height='9' fill='white'/>", False),
        ("<path d='M0 0L9 9' style='fill:none;stroke:rgb(0%,0%,0%);stroke-opacity:1'/>", False),
        ("<circle r='1' fill='rgb(255, 0, 0)'/>", False),
        ("<circle r='1' fill='hsl(0, 100%, 0%)'/>", False),
        ("<circle r='1' fill='rgb(0 0 0 / 50%)'/>", False),
        ("<rect width='100%' height='100%' fill='url(#a)'/>", False),
        ("<rect width='100%' height='100%' fill='white' stroke='red'/>", False),
        ("<rect width='100%' height='100%'/><circle r='1' fill='red'/>", False),
        ("<marker id='m'><circle r='5'/></marker><path d='M5 5L9 9' fill='none' marker-start='url(#m)'/>", False),
        ("<marker id='m'><circle r='5'/></marker><g style='marker:url(#m)'><polyline points='5,5' fill='none'/></g>",
         False),
        ("<g font-size='0'><text font-size='9'>word</text></g>", False),
        ("<symbol id='a'><path d='M0 0L9 9'/></symbol>", False),
        ("<defs><path id='a' d='M0 0L9 9'/></defs><use href='#a'/>", False),
        ("<image href='photo.jpg'/>", False),
        (f"<image href='data:image/png;base64,{PICTURE}'/>", False),
        ("<script>draw()</script>", False),
        ("<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>word</p></foreignObject>", False),
        ("<g filter='url(#flood)'/>", False),
        ("<g display='none'><set attributeName='display' to='inline'/></g>", False),
        ("<style>.a { fill: red }</style><rect class='a' fill='none' width='9' height='9'/>", False),
        ("<style>.a { stroke: red }</style><line class='a' x2='9'/>", False),
        ("<defs><font><glyph d='M0 0L9 9'/></font></defs>", False),
    ],
)  # fmt: skip
def test_drawing_is_blank_without_possible_ink(body: str, *, blank: bool) -> None:
    result = examine(body)
    assert (result.outcome, bool(result.blank)) == (Outcome.OK, blank), result.detail


def test_web_page_named_svg_is_a_mismatch() -> None:
    with source_of(b"<!DOCTYPE html><html><body>Not found</body></html>") as source:
        assert inspect_file(source._fd, filename="a.svg").finding is Finding.TYPE_MISMATCH
