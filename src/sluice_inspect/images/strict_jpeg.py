"""Decodes a JPEG that is at hand with a decoder that takes its own warnings for errors. Follows no file: how a JPEG file is laid out is its kind's."""

import re
from typing import Final

import pikepdf

_FRAME: Final = re.compile(rb"\xff([\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf])..(.)", re.DOTALL)
_COMMON: Final = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
"""Baseline, extended, progressive; lossless and hierarchical ones are read by few."""
_DEPTH: Final = 8


def is_common_jpeg(data: bytes) -> bool:
    """Whether most decoders know the process and the depth of a picture. In doubt they do."""
    frame = _FRAME.search(data)
    return frame is None or (frame.group(1)[0] in _COMMON and frame.group(2)[0] == _DEPTH)


def jpeg_complaint(data: bytes) -> str:
    """Answer what qpdf's decoder has against a picture, nothing when it decodes to its end without a warning."""
    with pikepdf.new() as carrier:
        stream = pikepdf.Stream(carrier, data)
        stream.Filter = pikepdf.Name.DCTDecode
        try:
            stream.get_stream_buffer(pikepdf.StreamDecodeLevel.all)
        except (pikepdf.DataDecodingError, pikepdf.PdfError, RuntimeError) as error:
            return str(error) or "no reason given"
    return ""
