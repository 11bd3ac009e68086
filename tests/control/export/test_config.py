"""What a config may be."""

import msgspec
import pytest

from control.export.config import BlobstoreConfig, SnowflakeConfig


def test_prefixes_that_paths_keep() -> None:
    for prefix in ("", "a", "a/b/", "/a", "a..b/.c/d.", "..."):
        assert msgspec.convert({"prefix": prefix}, BlobstoreConfig).prefix == prefix


def test_prefixes_that_paths_do_not_keep() -> None:
    for prefix in (".", "..", "../a", "a/..", "a/./b", "a//b", "a\n", "a b", "a?b", "ä", "a" * 513):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"prefix": prefix}, BlobstoreConfig)


def test_names_that_would_change_a_url() -> None:
    for value in ("", "a/b", "a?b", "a#b", "@a", "a:1", "a\n", "a b", ".a", "a" * 256):
        for name in ("bucket", "container", "region", "account"):
            with pytest.raises(msgspec.ValidationError):
                msgspec.convert({name: value}, BlobstoreConfig)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"account": value}, SnowflakeConfig)


def test_names_that_change_no_url() -> None:
    names = {"bucket": "my.bucket-1_x", "region": "eu-central-1", "account": "org-account.x", "container": "c1"}
    assert msgspec.to_builtins(msgspec.convert(names, BlobstoreConfig)) == names
