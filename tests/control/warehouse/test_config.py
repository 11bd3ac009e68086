"""What a config may be."""

import msgspec
import pytest

from control.warehouse.config import BlobstoreConfig, SnowflakeConfig


@pytest.mark.parametrize("prefix", ["", "a", "a/b/", "/a", "a..b/.c/d.", "..."])
def test_prefixes_that_paths_keep(prefix: str) -> None:
    assert msgspec.convert({"prefix": prefix}, BlobstoreConfig).prefix == prefix


@pytest.mark.parametrize("prefix", [".", "..", "../a", "a/..", "a/./b", "a//b", "a\n", "a b", "a?b", "ä", "a" * 513])
def test_prefixes_that_paths_do_not_keep(prefix: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"prefix": prefix}, BlobstoreConfig)


@pytest.mark.parametrize("name", ["bucket", "container", "region", "account"])
@pytest.mark.parametrize("value", ["", "a/b", "a?b", "a#b", "@a", "a:1", "a\n", "a b", ".a", "a" * 256])
def test_names_that_would_change_a_url(name: str, value: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: value}, BlobstoreConfig)
    if name == "account":
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({name: value}, SnowflakeConfig)


def test_names_that_change_no_url() -> None:
    names = {"bucket": "my.bucket-1_x", "region": "eu-central-1", "account": "org-account.x", "container": "c1"}
    assert msgspec.to_builtins(msgspec.convert(names, BlobstoreConfig)) == names
