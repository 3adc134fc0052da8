"""Makes small Outlook messages: the sample of the kind. Writes what `mapi.py` reads, and no more."""

import struct
from collections.abc import Mapping, Sequence

from sluice.formats.office.compound_sample import Tree, make_compound

Properties = Mapping[int, "str | bytes | int"]
"""Texts, binary data and numbers by the number of their property."""


def make_message(properties: Properties, attachments: Sequence[Properties] = (), *, what: str = "IPM.Note") -> bytes:
    """Answer a message of a class with these properties, and attachments with theirs."""
    parts = {f"__attach_version1.0_#{number:08X}": storage(each, 8) for number, each in enumerate(attachments)}
    return make_compound({**storage({0x001A: what, **properties}, 32), **parts})


def storage(properties: Properties, header: int) -> dict[str, "bytes | Tree"]:
    """Answer the streams of an item: the list of its properties, behind a header of so many bytes, and the long ones."""
    listed, streams = bytes(header), {}
    for number, value in properties.items():
        if isinstance(value, int):
            listed += struct.pack("<HHLQ", 3, number, 6, value)
            continue
        kind, content = (0x1F, value.encode("utf-16-le")) if isinstance(value, str) else (0x102, value)
        streams[f"__substg1.0_{number:04X}{kind:04X}"] = content
        listed += struct.pack("<HHLLL", kind, number, 6, len(content) + (2 if kind == 0x1F else 0), 0)  # noqa: PLR2004  (a text)
    return {"__properties_version1.0": listed, **streams}
