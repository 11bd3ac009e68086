"""Write protobuf's wire format: fields as bytes, which callers join into messages.

https://protobuf.dev/programming-guides/encoding/
"""

import struct
from typing import Final

_FIXED64: Final = struct.Struct("<Q")
_FIXED32: Final = struct.Struct("<I")
_DOUBLE: Final = struct.Struct("<d")


def varint(value: int) -> bytes:
    """An unsigned number below 2^64: seven bits per byte, least significant first."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = [bytes((value,)) for value in range(0x80)]
_SHORT: Final = [[bytes((number << 3 | 2, size)) for size in range(0x80)] for number in range(16)]  # tag and length


def varint_field(number: int, value: int) -> bytes:
    """An integer, enum or boolean. A negative number is encoded as the ten bytes of its two's complement."""
    return varint(number << 3) + varint(value & 0xFFFFFFFFFFFFFFFF)


def bytes_field(number: int, value: bytes | bytearray) -> bytes:
    """A string, bytes, or an encoded message."""
    size = len(value)
    if number < 16 and size < 0x80:
        return _SHORT[number][size] + value
    return varint(number << 3 | 2) + varint(size) + value


def fixed64_field(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + _FIXED64.pack(value)


def double_field(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + _DOUBLE.pack(value)


def fixed32_field(number: int, value: int) -> bytes:
    return varint(number << 3 | 5) + _FIXED32.pack(value)
