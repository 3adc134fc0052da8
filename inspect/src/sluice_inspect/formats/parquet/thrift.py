"""Reader of Thrift's compact protocol, in which all headers of Parquet are written."""
# A struct is a mapping from the numbers of its fields to values: integers, booleans, bytes, lists, structs.

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

Value = object
Fields = Mapping[int, Value]

_MAX_DEPTH: Final = 32
_MAX_VARINT_BYTES: Final = 10
_UUID_BYTES: Final = 16
_LONG_LIST: Final = 15  # a list of this many elements or more has its length after the first byte

# Type codes. Booleans have two, so that a field needs no byte for its value.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_INTEGERS: Final = frozenset({4, 5, 6})


class ThriftError(Exception):
    """The bytes are no valid struct, or end inside it. `str()` says why."""


@dataclass(slots=True)
class CompactReader:
    """Reads values one after the other. `offset` is that of the next byte."""

    data: bytes
    offset: int = 0

    def read_struct(self, depth: int = 0) -> Fields:
        """Return the fields of the next struct. Raise `ThriftError`."""
        if depth > _MAX_DEPTH:
            raise ThriftError("it nests too deeply")
        fields: dict[int, Value] = {}
        number = 0
        while head := self._read_byte():
            delta, type_code = head >> 4, head & 0xF
            number = number + delta if delta else self._read_signed()
            if number in fields:
                raise ThriftError(f"field {number} occurs twice")
            is_boolean = type_code in {_TRUE, _FALSE}
            fields[number] = type_code == _TRUE if is_boolean else self._read_value(type_code, depth)
        return fields

    def _read_value(self, type_code: int, depth: int) -> Value:
        if type_code in _INTEGERS:
            return self._read_signed()
        if type_code == _BINARY:
            return self._read_bytes(self._read_varint())
        if type_code in {_LIST, _SET}:
            head = self._read_byte()
            count, element_type = head >> 4, head & 0xF
            count = self._read_varint() if count == _LONG_LIST else count
            self._require_bytes(count)
            return [self._read_value(element_type, depth) for _ in range(count)]
        if type_code == _STRUCT:
            return self.read_struct(depth + 1)
        rare: Mapping[int, Callable[[], Value]] = {
            _TRUE: lambda: self._read_byte() == _TRUE,  # in lists and maps a boolean is a byte
            _FALSE: lambda: self._read_byte() == _TRUE,
            _BYTE: lambda: int.from_bytes(self._read_bytes(1), signed=True),
            _DOUBLE: lambda: struct.unpack("<d", self._read_bytes(8))[0],
            _MAP: lambda: self._read_map(depth),
            _UUID: lambda: self._read_bytes(_UUID_BYTES),
        }
        if type_code not in rare:
            raise ThriftError(f"there is no type {type_code}")
        return rare[type_code]()

    def _read_map(self, depth: int) -> list[tuple[Value, Value]]:
        count = self._read_varint()
        self._require_bytes(count)
        types = self._read_byte() if count else 0
        return [(self._read_value(types >> 4, depth), self._read_value(types & 0xF, depth)) for _ in range(count)]

    def _read_byte(self) -> int:
        if self.offset >= len(self.data):
            raise ThriftError("it ends too early")
        self.offset += 1
        return self.data[self.offset - 1]

    def _read_bytes(self, size: int) -> bytes:
        self._require_bytes(size)
        self.offset += size
        return self.data[self.offset - size : self.offset]

    def _require_bytes(self, size: int) -> None:
        # Also for counts of elements, each of which has a byte or more: a short file never makes a long list.
        if size > len(self.data) - self.offset:
            raise ThriftError("it ends too early")

    def _read_signed(self) -> int:
        number = self._read_varint()
        return number >> 1 ^ -(number & 1)  # zigzag

    def _read_varint(self) -> int:
        number = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self._read_byte()
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return number
        raise ThriftError("a number has no end")


def require_struct(value: object) -> Fields:
    """Return a value that must be a struct. Raise `ThriftError`."""
    if not isinstance(value, dict):
        raise ThriftError("a struct is missing")
    return cast("Fields", value)


def require_list(fields: Fields, field: int) -> list[object]:
    """Return the list in a field. Raise `ThriftError` if it is missing."""
    value = fields.get(field)
    if not isinstance(value, list):
        raise ThriftError(f"its list {field} is missing")
    return value


def require_int(fields: Fields, field: int, default: int | None = None) -> int:
    """Return the integer in a field. Raise `ThriftError` if it is missing and there is no default."""
    value = fields.get(field, default)
    if not isinstance(value, int):
        raise ThriftError(f"its number {field} is missing")
    return value
