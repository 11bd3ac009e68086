"""The mutator of SCIM bodies: one change in the tree of the JSON, in the words that directories use."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

Mutate = Callable[[bytes, int], bytes]

_BLIND: Final = 0.15
_ENTERPRISE: Final = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
_NAMES: Final = (
    "active", "addresses", "displayName", "emails", "externalId", "familyName", "formatted", "givenName", "groups",
    "id", "manager", "members", "meta", "name", "op", "Operations", "path", "phoneNumbers", "primary", "$ref", "roles",
    "schemas", "title", "type", "userName", "USERNAME", "value", "x509Certificates", "unknown", _ENTERPRISE,
    f"{_ENTERPRISE}:manager", "urn:ietf:params:scim:schemas:core:2.0:Group:members", "name.familyName",
    'emails[type eq "work"].value', 'urn:ietf:params:scim:schemas:core:2.0:User:phoneNumbers[type eq "x"].display',
    f"{_ENTERPRISE}.department", f'members[value eq "scu_{0:026d}"]', "emails[", "members.value",
)  # fmt: skip
_MEMBERS: Final = tuple(f"scu_{number:026d}" for number in range(5))
_VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "False", "true", 0, 1.5, -(2**70), "", " ", "a", "\0", "\u0130" * 300, "\u200b", "\udc00", [],
    {}, [{}], [None], "ada@example.com", "a@b", "2026-11-20T00:00:00Z", "https://example.com/x", "AAAA",
    "work", "User", "Group", "add", "Remove", "replace", *_MEMBERS, *({"value": one} for one in _MEMBERS),
    {"value": _MEMBERS[0], "type": "Group"}, [{"value": _MEMBERS[3]}, {"value": _MEMBERS[0].upper()}],
    {"value": "x", "primary": True},
    {"members": [{"value": _MEMBERS[3]}], "displayName": "x"}, {"emails": [{"value": "b@c.d", "type": "work"}]},
    'emails[type eq "work"]', 'emails[type eq "work"].value', "emails[primary eq true].value", "emails", "members",
    f'members[value eq "{_MEMBERS[0]}"]', f'members[not (value eq "{_MEMBERS[1]}")]',
    f'members[value eq "{_MEMBERS[0]}"].type', f'members[value eq "{_MEMBERS[3]}"]', "members.value", "displayName",
    "externalId", "name.givenName", "active", f"{_ENTERPRISE}:department", f"{_ENTERPRISE}:manager.value", _ENTERPRISE,
    "schemas", "meta.created", "id", "password",
)  # fmt: skip


def changed(body: bytes, max_size: int, random: Random, mutate: Mutate) -> bytes:
    """The body with one change in its tree; at times with a blind one of libFuzzer's, `mutate`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return mutate(body, max_size)
    if random.random() < _BLIND or not isinstance(value, dict):
        return mutate(body, max_size)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        _change(value, random, mutate)
    return json.dumps(value).encode()[:max_size]


def _change(value: Any, random: Random, mutate: Mutate) -> None:
    """Goes down to some object or list and changes one of its entries."""
    places = list(value) if isinstance(value, dict) else list(range(len(value)))
    inner = [place for place in places if isinstance(value[place], dict | list) and value[place]]
    if inner and random.random() < 0.8:
        _change(value[random.choice(inner)], random, mutate)
    elif isinstance(value, dict):
        _change_object(value, random, mutate)
    else:
        place = random.randrange(len(value) + 1)
        if value and random.random() < 0.3:
            value[place:place] = [json.loads(json.dumps(random.choice(value)))]
        elif value and random.random() < 0.2:
            del value[place - 1]
        else:
            value[place : place + 1] = [_other(value[place] if place < len(value) else None, random, mutate)]


def _change_object(value: dict[str, Any], random: Random, mutate: Mutate) -> None:
    name = random.choice([*value, random.choice(_NAMES)])
    way = random.randrange(5)
    if way == 0:
        value.pop(name, None)
    elif way == 1 and name in value:
        value[random.choice(_NAMES)] = value.pop(name)
    elif way == 2 and name in value:
        value[name.swapcase()] = value.pop(name)
    else:
        value[name] = _other(value.get(name), random, mutate)


def _other(value: Any, random: Random, mutate: Mutate) -> Any:
    if isinstance(value, str) and random.random() < 0.3:
        return mutate(value.encode(errors="replace"), len(value) + 16).decode(errors="replace")
    if value is not None and random.random() < 0.1:
        return [value]
    return json.loads(json.dumps(random.choice(_VALUES)))
