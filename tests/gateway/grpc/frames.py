"""HTTP/2 frames as bytes, for tests that write them themselves (RFC 9113)."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE = 0, 1, 2, 3, 4, 5
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION, UNKNOWN = 6, 7, 8, 9, 0x4D
END_STREAM, END_HEADERS, ACK = 1, 4, 1
REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 7, 8, 11


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame, whatever its payload."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def frames_of(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of whole frames."""
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "big")
        stream = int.from_bytes(data[at + 5 : at + 9], "big")
        found.append((data[at + 3], data[at + 4], stream, data[at + 9 : at + 9 + size]))
        at += 9 + size
    return found
