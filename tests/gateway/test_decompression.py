"""Inflation: what comes out is what went in, and never more than its limits."""

import gzip
import os
import zlib
from collections.abc import Callable

import pytest
from backports import zstd

from chassis.errors import ApiError, BadRequest, PayloadTooLarge, UnsupportedMediaType
from gateway.decompression import DecompressionLimits, content_encoding, decompress

LIMITS = DecompressionLimits(max_bytes=200_000, max_frames=4, max_window_bytes=2**20)
PLAIN = os.urandom(50_000) + b"a" * 50_000


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def wide_zstd(data: bytes, window_log: int = 20) -> bytes:
    """A frame that names its window, as streaming encoders write it."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return packer.compress(data) + packer.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("zstd", zstd.compress),
    ("zstd", wide_zstd),
]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_what_went_in_comes_out_up_to_the_cap(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """A bomb costs its cap and no more."""
    for data in (b"", b"x", PLAIN, bytes(200_000)):
        assert decompress(encoding, pack(data), LIMITS) == data
    with pytest.raises(PayloadTooLarge, match="larger than 200000 bytes"):
        decompress(encoding, pack(bytes(200_001)), LIMITS)
    with pytest.raises(PayloadTooLarge):
        decompress(encoding, pack(bytes(64 * 2**20)), LIMITS)
    packed = pack(PLAIN)
    for wrong in (packed[:-1], packed[: len(packed) // 2], packed[:3], b"", packed + b"tail"):
        with pytest.raises(BadRequest):
            decompress(encoding, wrong, LIMITS)


def test_the_cap_holds_without_an_encoding() -> None:
    assert len(decompress("identity", bytes(200_000), LIMITS)) == 200_000
    with pytest.raises(PayloadTooLarge):
        decompress("identity", bytes(200_001), LIMITS)


@pytest.mark.parametrize(("encoding", "pack", "at"), [("gzip", gzip.compress, -5), ("deflate", zlib.compress, -1)])
def test_a_wrong_checksum_is_refused(encoding: str, pack: Callable[[bytes], bytes], at: int) -> None:
    packed = bytearray(pack(PLAIN))
    packed[at] ^= 1
    with pytest.raises(BadRequest, match=f"not valid {encoding}"):
        decompress(encoding, bytes(packed), LIMITS)


def test_reserved_flags_of_gzip_are_refused() -> None:
    for flag in (0x20, 0x40, 0x80):
        packed = bytearray(gzip.compress(PLAIN))
        packed[3] |= flag
        for body in (packed, gzip.compress(PLAIN) + packed):
            with pytest.raises(BadRequest, match="not valid gzip"):
                decompress("gzip", bytes(body), LIMITS)


@pytest.mark.parametrize(("encoding", "pack"), [PACKERS[0], PACKERS[3]])
def test_members_are_joined_up_to_their_limit_and_share_one_cap(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    parts = [b"one", b"", b"x" * 70_000, b"four"]
    assert decompress(encoding, b"".join(map(pack, parts)), LIMITS) == b"".join(parts)
    with pytest.raises(PayloadTooLarge, match="more than 4 members"):
        decompress(encoding, b"".join(map(pack, [*parts, b"five"])), LIMITS)
    with pytest.raises(PayloadTooLarge, match="larger than"):
        decompress(encoding, pack(bytes(60_000)) * 4, LIMITS)


def test_a_zstd_window_has_a_limit() -> None:
    with pytest.raises(PayloadTooLarge, match="window is larger than 1048576 bytes"):
        decompress("zstd", wide_zstd(PLAIN, 21), LIMITS)


def test_accepted_encodings() -> None:
    accepted = {"": "identity", "identity": "identity", "gzip": "gzip", " GZip ": "gzip", "x-gzip": "gzip"}
    accepted |= {"deflate": "deflate", "zstd": "zstd"}
    assert {value: content_encoding([value]) for value in accepted} == accepted
    assert content_encoding([]) == "identity"


@pytest.mark.parametrize("values", [["br"], ["snappy"], ["gzip, gzip"], ["gzip", "gzip"], ["gzip", "identity"]])
def test_other_and_stacked_encodings_are_not(values: list[str]) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        content_encoding(values)
    assert isinstance(caught.value, ApiError)
