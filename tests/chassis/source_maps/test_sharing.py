"""A project loses what it used first, and only while it has most of a full cache."""

from chassis.source_maps.resolver import FairCache

MISSING = "missing"


def held(cache: FairCache[str], project_id: int, keys: str) -> str:
    return "".join(key for key in keys if cache.get(project_id, key, MISSING) != MISSING)


def test_the_project_that_has_most_loses_what_it_used_first() -> None:
    cache = FairCache[str](10)
    cache.put(1, "x", "of 1", 3)
    for key in "abcdefg":
        cache.put(2, key, key, 1)
    assert (held(cache, 1, "x"), cache.get(2, "a", MISSING)) == ("x", "a")
    for key in "hij":
        cache.put(2, key, key, 1)
    assert (held(cache, 1, "x"), held(cache, 2, "abcdefghij")) == ("x", "aefghij")
    cache.put(1, "y", "of 1", 3)
    assert (held(cache, 1, "xy"), len(held(cache, 2, "abcdefghij"))) == ("y", 6)


def test_a_value_is_replaced_and_forgotten_with_its_size() -> None:
    cache = FairCache[str](10)
    for _ in range(5):
        cache.put(1, "x", "new", 6)
    cache.put(2, "y", "other", 4)
    assert (cache.get(1, "x", MISSING), cache.get(2, "y", MISSING)) == ("new", "other")
    cache.forget(1)
    cache.forget(3)
    cache.put(2, "z", "third", 6)
    assert (held(cache, 1, "x"), held(cache, 2, "yz")) == ("", "yz")


def test_what_fits_nowhere_is_not_kept() -> None:
    cache = FairCache[str](10)
    cache.put(1, "x", "small", 2)
    cache.put(2, "y", "large", 11)
    assert (held(cache, 1, "x"), held(cache, 2, "y")) == ("x", "")
