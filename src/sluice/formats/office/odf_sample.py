"""Makes the smallest OpenDocument packages, for the samples of the kinds. Reads none."""

import io
import zipfile
from typing import Final

_NAMESPACES: Final = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{space}:1.0"'
    for name, space in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"), ("svg", "svg-compatible"))
)


def make_package(family: str, body: str) -> bytes:
    """Answer a document of a family around the content of its body."""
    media_type = f"application/vnd.oasis.opendocument.{family}"
    content = f"<office:document-content {_NAMESPACES}><office:body><office:{family}>{body}</office:{family}></office:body></office:document-content>"
    manifest = (
        '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        f'<m:file-entry m:full-path="/" m:media-type="{media_type}"/>'
        '<m:file-entry m:full-path="content.xml" m:media-type="text/xml"/></m:manifest>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), media_type)
        archive.writestr(zipfile.ZipInfo("content.xml"), content, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("META-INF/manifest.xml"), manifest, zipfile.ZIP_DEFLATED)
    return file.getvalue()
