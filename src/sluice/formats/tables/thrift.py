"""Reads structures of Thrift's compact protocol, the form of all headers of Parquet. What the fields mean is not known here.

A structure is a mapping from the numbers of its fields to values: whole numbers, booleans, bytes, lists, structures again.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

Value = object
Fields = Mapping[int, Value]

_DEPTH_MOST: Final = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_NUMBERS: Final = frozenset({4, 5, 6})
_SHORT_MOST: Final = 15
_VARINT_MOST: Final = 10
_UUID_BYTES: Final = 16


class BadThrift(Exception):
    """The bytes are no such structure, or end before it does. `str()` says why."""


@dataclass(slots=True)
class Reader:
    """Reads values one after the other; `at` is the place of the next byte."""

    data: bytes
    at: int = 0

    def fields(self, depth: int = 0) -> Fields:
        """Answer the next structure. Raises `BadThrift`."""
        if depth > _DEPTH_MOST:
            raise BadThrift("it nests too deeply")
        found: dict[int, Value] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 0xF
            number = number + step if step else self._signed()
            if number in found:
                raise BadThrift(f"field {number} comes twice")
            found[number] = kind == _TRUE if kind in {_TRUE, _FALSE} else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Value:
        if kind in _NUMBERS:
            return self._signed()
        if kind == _BINARY:
            return self._taken(self._varint())
        if kind in {_LIST, _SET}:
            return self._list(depth)
        if kind == _STRUCT:
            return self.fields(depth + 1)
        rare: Mapping[int, Callable[[], Value]] = {
            _TRUE: lambda: self._byte() == _TRUE,
            _FALSE: lambda: self._byte() == _TRUE,
            _BYTE: lambda: int.from_bytes(self._taken(1), signed=True),
            _DOUBLE: lambda: struct.unpack("<d", self._taken(8))[0],
            _MAP: lambda: self._map(depth),
            _UUID: lambda: self._taken(_UUID_BYTES),
        }
        if kind not in rare:
            raise BadThrift(f"there is no type {kind}")
        return rare[kind]()

    def _list(self, depth: int) -> list[Value]:
        head = self._byte()
        count, kind = head >> 4, head & 0xF
        count = self._varint() if count == _SHORT_MOST else count
        self._require(count)
        return [self._value(kind, depth) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Value, Value]]:
        count = self._varint()
        self._require(count)
        kinds = self._byte() if count else 0
        return [(self._value(kinds >> 4, depth), self._value(kinds & 0xF, depth)) for _ in range(count)]

    def _byte(self) -> int:
        if self.at >= len(self.data):
            raise BadThrift("it ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def _taken(self, size: int) -> bytes:
        self._require(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def _require(self, size: int) -> None:
        """Every value has a byte or more, so that so many cannot be in less."""
        if size > len(self.data) - self.at:
            raise BadThrift("it ends too early")

    def _signed(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)

    def _varint(self) -> int:
        number = 0
        for place in range(_VARINT_MOST):
            byte = self._byte()
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004  (the last byte)
                return number
        raise BadThrift("a number has no end")
