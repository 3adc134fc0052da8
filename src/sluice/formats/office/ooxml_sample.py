"""Makes the smallest Office packages, for the samples of the kinds. Reads none."""

import io
import posixpath
import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_RELATION_TYPE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"


def make_package(main: str, content_type: str, xml: str, others: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> bytes:
    """Answer the smallest package around a main part, for samples. `others`: (relation kind, XML) by the name of parts that `main` relates to."""
    folder, name = posixpath.split(main)
    types = "".join(
        f'<Default Extension="{extension}" ContentType="{declared}"/>'
        for extension, declared in (
            ("rels", "application/vnd.openxmlformats-package.relationships+xml"),
            ("xml", "application/xml"),
        )
    )
    relations = "".join(
        f'<Relationship Id="rId{number}" Type="{_RELATION_TYPE}/{kind}" Target="{posixpath.relpath(part, folder)}"/>'
        for number, (part, (kind, _)) in enumerate(others.items(), start=1)
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in (
            (
                "[Content_Types].xml",
                f'<Types xmlns="{_PACKAGE}/content-types">{types}<Override PartName="/{main}" ContentType="{content_type}"/></Types>',
            ),
            (
                "_rels/.rels",
                f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="rId1" Type="{_RELATION_TYPE}/officeDocument" Target="{main}"/></Relationships>',
            ),
            (f"{folder}/_rels/{name}.rels", f'<Relationships xmlns="{_PACKAGE}/relationships">{relations}</Relationships>'),
            (main, xml),
            *((part, content) for part, (_, content) in others.items()),
        ):
            archive.writestr(zipfile.ZipInfo(part), content)
    return file.getvalue()
