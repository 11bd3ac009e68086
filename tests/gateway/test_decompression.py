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


def wide_zstd(data: bytes, window_log: int) -> bytes:
    """A frame that names its window, as streaming encoders write it."""
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return packer.compress(data) + packer.flush()


PACKERS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("zstd", zstd.compress),
    ("zstd", lambda data: wide_zstd(data, 20)),
]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@pytest.mark.parametrize("data", [b"", b"x", PLAIN])
def test_what_went_in_comes_out(encoding: str, pack: Callable[[bytes], bytes], data: bytes) -> None:
    assert decompress(encoding, pack(data), LIMITS) == data


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_the_cap_is_exact(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    assert len(decompress(encoding, pack(bytes(200_000)), LIMITS)) == 200_000
    with pytest.raises(PayloadTooLarge, match="larger than 200000 bytes"):
        decompress(encoding, pack(bytes(200_001)), LIMITS)


def test_the_cap_holds_without_an_encoding() -> None:
    assert len(decompress("identity", bytes(200_000), LIMITS)) == 200_000
    with pytest.raises(PayloadTooLarge):
        decompress("identity", bytes(200_001), LIMITS)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_truncated_corrupt_and_followed_by_something_is_refused(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(PLAIN)
    for wrong in (packed[:-1], packed[: len(packed) // 2], packed[:3], b"", packed + b"tail"):
        with pytest.raises(BadRequest):
            decompress(encoding, wrong, LIMITS)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_wrong_checksum_is_refused(encoding: str) -> None:
    packed = bytearray(gzip.compress(PLAIN) if encoding == "gzip" else zlib.compress(PLAIN))
    packed[-5 if encoding == "gzip" else -1] ^= 1
    with pytest.raises(BadRequest, match=f"not valid {encoding}"):
        decompress(encoding, bytes(packed), LIMITS)


@pytest.mark.parametrize("flag", [0x20, 0x40, 0x80])
def test_reserved_flags_of_gzip_are_refused(flag: int) -> None:
    packed = bytearray(gzip.compress(PLAIN))
    packed[3] |= flag
    for body in (packed, gzip.compress(PLAIN) + packed):
        with pytest.raises(BadRequest, match="not valid gzip"):
            decompress("gzip", bytes(body), LIMITS)


@pytest.mark.parametrize(("encoding", "pack"), [PACKERS[0], PACKERS[3]])
def test_members_are_joined_up_to_their_limit(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    parts = [b"one", b"", b"x" * 70_000, b"four"]
    assert decompress(encoding, b"".join(map(pack, parts)), LIMITS) == b"".join(parts)
    with pytest.raises(PayloadTooLarge, match="more than 4 members"):
        decompress(encoding, b"".join(map(pack, [*parts, b"five"])), LIMITS)


def test_many_large_members_share_one_cap() -> None:
    with pytest.raises(PayloadTooLarge, match="larger than"):
        decompress("gzip", gzip.compress(bytes(60_000)) * 4, LIMITS)


def test_a_zstd_window_has_a_limit() -> None:
    assert decompress("zstd", wide_zstd(PLAIN, 20), LIMITS) == PLAIN
    with pytest.raises(PayloadTooLarge, match="window is larger than 1048576 bytes"):
        decompress("zstd", wide_zstd(PLAIN, 21), LIMITS)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_a_bomb_costs_its_cap_and_no_more(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(64 * 2**20))
    with pytest.raises(PayloadTooLarge):
        decompress(encoding, bomb, LIMITS)


@pytest.mark.parametrize(
    ("values", "encoding"),
    [
        ([], "identity"),
        ([""], "identity"),
        (["identity"], "identity"),
        (["gzip"], "gzip"),
        ([" GZip "], "gzip"),
        (["x-gzip"], "gzip"),
        (["deflate"], "deflate"),
        (["zstd"], "zstd"),
    ],
)
def test_accepted_encodings(values: list[str], encoding: str) -> None:
    assert content_encoding(values) == encoding


@pytest.mark.parametrize("values", [["br"], ["snappy"], ["gzip, gzip"], ["gzip", "gzip"], ["gzip", "identity"]])
def test_other_and_stacked_encodings_are_not(values: list[str]) -> None:
    with pytest.raises(UnsupportedMediaType) as caught:
        content_encoding(values)
    assert isinstance(caught.value, ApiError)
