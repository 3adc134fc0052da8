"""SVG: integrity, safety and blankness."""

import base64
from collections.abc import Iterable

from sluice_inspect.formats.svg import FORMAT
from sluice_inspect.images.raster import sample_picture
from sluice_inspect.inspection import inspect_file
from sluice_inspect.report import Finding, Limits
from tests.inspection.formats.examining import Row, source_of, verdicts

DOT = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PICTURE = base64.b64encode(sample_picture("PNG")).decode()


def drawing(body: str, front: str = "") -> bytes:
    return f'{front}<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 100">{body}</svg>'.encode()


@verdicts(FORMAT)
def test_malformed_other_or_unsafe_drawing_gets_its_verdict() -> Iterable[Row]:
    for front in (
        "",
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- made by hand -->\n',
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" [<!ENTITY ns "http://a">]>',
    ):
        yield f"front {front}", drawing("<path d='M0 0L9 9' stroke='black'/>", front=front), "ok"
    for data in (
        drawing("<g>"),
        drawing("<g></p>"),
        drawing("a & b"),
        drawing("")[:-3],
        b"<svg",
        b"no drawing",
        drawing("\0"),
    ):
        yield f"malformed {data!r}", data, "corrupt"
    yield "other XML", b"<?xml version='1.0'?><feed><entry>1</entry></feed>", "corrupt", "its root is feed"
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    laughs = f'<!DOCTYPE svg [<!ENTITY l0 "laugh">{entities}]>'
    yield "entities that multiply", drawing("<text>&l11;</text>", front=laughs), "archive_bomb"
    outside = '<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    yield "absolute address", drawing("<text>&x;</text>", front=outside), "archive_unsafe"


def test_entities_in_other_files_are_counted_and_not_loaded() -> None:
    with source_of(drawing("<text>&x;</text>", front='<!DOCTYPE svg [<!ENTITY x SYSTEM "other.xml">]>')) as source:
        assert FORMAT.examine(source, Limits()).measures["external_entities"] == 1


@verdicts(FORMAT)
def test_drawing_is_blank_without_possible_ink() -> Iterable[Row]:
    for body in (
        "",
        "<title>t</title><desc>nothing</desc><defs/><g></g>",
        "<metadata><a:Work xmlns:a='http://a'>text</a:Work></metadata>",
        "<defs><path d='M0 0L9 9'/><text>word</text></defs>",
        "<clipPath><rect width='9' height='9'/></clipPath>",
        "<g display='none'><path d='M0 0L9 9' stroke='red'/></g>",
        "<g style='display:none'><text>word</text></g>",
        "<g visibility='hidden'><rect width='9' height='9'/></g>",
        "<rect width='9' height='9' fill='none'/>",
        "<g fill='none'><rect width='9' height='9'/></g>",
        "<rect width='9' height='9' style='fill: rgba(0, 0, 0, 0)'/>",
        "<rect width='9' height='9' fill='rgb(10% 20% 30% / 0%)'/><rect width='9' height='9' fill='hsla(0, 0%, 0%, .0)'/>",
        "<rect width='9' height='9' opacity='0.0'/>",
        "<rect width='9' height='9' fill='red' fill-opacity='0'/>",
        "<rect width='9' height='9' fill='none' stroke='red' stroke-width='0'/>",
        "<rect width='0' height='9'/><circle r='0'/><path d=''/><path d='M 1 1'/><polygon points='1,1'/>",
        "<line x2='9'/>",
        "<text> \u200b\u00a0</text>",
        "<g font-size='0'><text>word</text></g>",
        "<g marker-end='url(#m)'><path d='M5 5L9 9' fill='none' style='marker-end: none'/></g>",
        "<image href=''/>",
        f"<image width='9' height='9' href='data:image/gif;base64,{DOT}'/>",
        "<rect width='100%' height='100%' fill='white'/>",
        "<rect x='-1' y='-1' width='200' height='200' fill='#123456'/>",
    ):
        yield body, drawing(body), "blank"
    for body in (
        "<line x2='9' stroke='black'/>",
        "<text>word</text>",
        "<text><tspan>word</tspan></text>",
        "<circle r='1'/>",
        "<ellipse rx='1' ry='2'/>",
        "<polyline points='0,0 9,9' stroke='red'/>",
        "<path d='M0 0 9 9' stroke='red'/>",
        "<path d='m1,1,5,5' stroke='red'/>",
        "<g visibility='hidden'><rect visibility='visible' width='9' height='9'/></g>",
        "<g fill='none'><rect width='9' height='9' fill='red'/></g>",
        "<rect width='9' height='9' fill='white'/>",
        "<path d='M0 0L9 9' style='fill:none;stroke:rgb(0%,0%,0%);stroke-opacity:1'/>",
        "<circle r='1' fill='rgb(255, 0, 0)'/>",
        "<circle r='1' fill='hsl(0, 100%, 0%)'/>",
        "<circle r='1' fill='rgb(0 0 0 / 50%)'/>",
        "<rect width='100%' height='100%' fill='url(#a)'/>",
        "<rect width='100%' height='100%' fill='white' stroke='red'/>",
        "<rect width='100%' height='100%'/><circle r='1' fill='red'/>",
        "<marker id='m'><circle r='5'/></marker><path d='M5 5L9 9' fill='none' marker-start='url(#m)'/>",
        "<marker id='m'><circle r='5'/></marker><g style='marker:url(#m)'><polyline points='5,5' fill='none'/></g>",
        "<g font-size='0'><text font-size='9'>word</text></g>",
        "<symbol id='a'><path d='M0 0L9 9'/></symbol>",
        "<defs><path id='a' d='M0 0L9 9'/></defs><use href='#a'/>",
        "<image href='photo.jpg'/>",
        f"<image href='data:image/png;base64,{PICTURE}'/>",
        "<script>draw()</script>",
        "<foreignObject><p xmlns='http://www.w3.org/1999/xhtml'>word</p></foreignObject>",
        "<g filter='url(#flood)'/>",
        "<g display='none'><set attributeName='display' to='inline'/></g>",
        "<style>.a { fill: red }</style><rect class='a' fill='none' width='9' height='9'/>",
        "<style>.a { stroke: red }</style><line class='a' x2='9'/>",
        "<defs><font><glyph d='M0 0L9 9'/></font></defs>",
    ):
        yield body, drawing(body), "ok"


def test_web_page_named_svg_is_a_mismatch() -> None:
    with source_of(b"<!DOCTYPE html><html><body>Not found</body></html>") as source:
        assert inspect_file(source._fd, filename="a.svg").finding is Finding.TYPE_MISMATCH
