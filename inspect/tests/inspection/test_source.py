"""Pieces of a source read as one file."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect.source import Piece, open_pieces
from tests.inspection.formats.examining import source_of

DATA = bytes(range(200))
STRETCH = st.tuples(st.integers(0, 199), st.integers(0, 60)).map(lambda pair: (pair[0], min(pair[1], 200 - pair[0])))


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else DATA[piece[0] : piece[0] + piece[1]] for piece in pieces)


@given(st.lists(st.one_of(st.binary(max_size=9), STRETCH), max_size=8), st.integers(0, 80), st.integers(0, 80))
def test_pieces_read_as_one_file(pieces: list[Piece], start: int, length: int) -> None:
    with source_of(DATA) as source:
        stream = open_pieces(source, pieces)
        assert stream.read() == joined(pieces)
        stream.seek(start)
        assert stream.read(length) == joined(pieces)[start : start + length]


def test_seek_counts_from_start_current_position_and_end() -> None:
    with source_of(DATA) as source:
        stream = open_pieces(source, [b"ab", (5, 3)])
        assert stream.seek(-1, io.SEEK_END) == 4
        assert stream.read() == DATA[7:8]
        stream.seek(1)
        assert stream.seek(1, io.SEEK_CUR) == 2
        with pytest.raises(OSError, match="before the start"):
            stream.seek(-9, io.SEEK_CUR)
