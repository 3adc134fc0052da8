"""A strict JPEG decoder: the libjpeg in qpdf, which reports as errors what other decoders draw over with a warning."""

from __future__ import annotations

import re
from typing import Final

import pikepdf

_FRAME: Final = re.compile(rb"\xff([\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf])..(.)(..)(..)", re.DOTALL)
# Baseline, extended and progressive. Few decoders read lossless and hierarchical pictures.
COMMON_PROCESSES: Final = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
COMMON_PRECISION: Final = 8


def is_common_jpeg(data: bytes) -> bool:
    """Return whether most decoders know the picture's process and depth; True if there is no frame header."""
    frame = _FRAME.search(data)
    return frame is None or (frame.group(1)[0] in COMMON_PROCESSES and frame.group(2)[0] == COMMON_PRECISION)


def jpeg_pixels(data: bytes) -> int:
    """Return how many pixels the picture declares; 0 if there is no frame header."""
    frame = _FRAME.search(data)
    return int.from_bytes(frame.group(3), "big") * int.from_bytes(frame.group(4), "big") if frame else 0


def jpeg_error(data: bytes) -> str:
    """Return the error that decoding a picture gives; empty if it decodes to its end without a warning."""
    # qpdf decodes JPEG only as a stream of a PDF, so the picture is put into an empty one.
    with pikepdf.new() as carrier:
        stream = pikepdf.Stream(carrier, data)
        stream.Filter = pikepdf.Name.DCTDecode
        try:
            stream.get_stream_buffer(pikepdf.StreamDecodeLevel.all)
        except (pikepdf.DataDecodingError, pikepdf.PdfError, RuntimeError) as error:
            return str(error) or "no reason given"
    return ""
