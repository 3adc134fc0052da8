"""Make OpenDocument files from the content of their body and their automatic styles."""

from collections.abc import Mapping

from sluice_inspect.formats.opendocument.format import ODP, ODS, ODT
from tests.inspection.formats.office_packages import package_of

NAMESPACES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in (
        ("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"), ("style", "style"), ("fo", "xsl-fo-compatible"),
        ("svg", "svg-compatible"), ("presentation", "presentation"),
    )
)  # fmt: skip
NAMESPACES += ' xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"'
FAMILIES = {"text": ODT, "presentation": ODP, "spreadsheet": ODS}


def document(family: str, body: str, styles: str = "", others: Mapping[str, bytes] | None = None) -> bytes:
    content = (
        f"<office:document-content {NAMESPACES}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{family}>{body}</office:{family}></office:body></office:document-content>"
    )
    parts = {"mimetype": f"application/vnd.oasis.opendocument.{family}".encode(), "content.xml": content.encode()}
    return package_of(parts | dict(others or {}))


def style(name: str, family: str, properties: str, parent: str = "") -> str:
    return f'<style:style style:name="{name}" style:family="{family}" style:parent-style-name="{parent}">{properties}</style:style>'


def paragraph(text: str = "word", name: str = "") -> str:
    return f'<text:p text:style-name="{name}">{text}</text:p>'
