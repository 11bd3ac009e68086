"""Where items come from: resource and scope, and the columns that they fill in every row (docs/codec.md 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.otlp.policy import Modification, Policy
from proto.otlp.reference.text import clean, compact_json, repair, truncate
from proto.otlp.reference.values import Flags, Value, Values

MAX_UINT32: Final = 2**32 - 1

Attributes = Mapping[bytes, Value]


@dataclass(frozen=True)
class Resource:
    """What describes the entity that sent the items."""

    attributes: Attributes
    dropped: int
    schema_url: bytes
    entity_refs: bytes
    service_name: bytes
    environment: bytes
    release: bytes
    flags: Flags


@dataclass(frozen=True)
class Scope:
    """What describes the code that made the items."""

    name: bytes
    version: bytes
    attributes: Attributes
    dropped: int
    schema_url: bytes
    flags: Flags


def read_resource(resource: Any, schema_url: bytes, values: Values, policy: Policy) -> Resource:
    flags: Flags = set()
    attributes, over_limit = values.attributes(resource.attributes, flags)

    def text(key: bytes) -> bytes:
        return attributes[key].text if key in attributes else b""

    def name(text: bytes) -> bytes:
        return truncate(text, policy.max_name_bytes, set())

    environment = text(b"deployment.environment.name") or text(b"deployment.environment") or b"unknown"
    return Resource(
        attributes=attributes,
        dropped=dropped_count(resource.dropped_attributes_count, over_limit),
        schema_url=clean(schema_url, policy.max_name_bytes, flags),
        entity_refs=_entity_refs(resource.entity_refs, policy, flags),
        service_name=name(text(b"service.name")),
        environment=name(environment),
        release=name(text(b"service.version")),
        flags=flags,
    )


def read_scope(scope: Any, schema_url: bytes, values: Values, policy: Policy) -> Scope:
    flags: Flags = set()
    attributes, over_limit = values.attributes(scope.attributes, flags)
    return Scope(
        name=clean(scope.name, policy.max_name_bytes, flags),
        version=clean(scope.version, policy.max_name_bytes, flags),
        attributes=attributes,
        dropped=dropped_count(scope.dropped_attributes_count, over_limit),
        schema_url=clean(schema_url, policy.max_name_bytes, flags),
        flags=flags,
    )


def origin_cells(item: Attributes, dropped: int, resource: Resource, scope: Scope) -> tuple[object, ...]:
    """The cells of the columns that spans and logs share, from `service_name` to `scope_schema_url`."""
    return (
        resource.service_name,
        resource.environment,
        resource.release,
        texts(item),
        types(item),
        numbers(item, resource, scope),
        dropped,
        texts(resource.attributes),
        types(resource.attributes),
        resource.dropped,
        resource.schema_url,
        resource.entity_refs,
        scope.name,
        scope.version,
        texts(scope.attributes),
        types(scope.attributes),
        scope.dropped,
        scope.schema_url,
    )


def texts(attributes: Attributes) -> list[tuple[bytes, bytes]]:
    """Keys and canonical texts in order."""
    return [(key, value.text) for key, value in attributes.items()]


def types(attributes: Attributes) -> bytes:
    """The attributes that are not strings, as netstrings after their type letter."""
    return b"".join(
        b"%s%d:%s" % (value.letter.encode(), len(key), key) for key, value in attributes.items() if value.letter != "s"
    )


def numbers(item: Attributes, resource: Resource, scope: Scope) -> list[tuple[bytes, float]]:
    """The finite numbers of item, resource and scope; a name that the item uses is the item's."""
    found = [(key, value.number) for key, value in item.items()]
    for prefix, attributes in ((b"resource.", resource.attributes), (b"scope.", scope.attributes)):
        found += [(prefix + key, value.number) for key, value in attributes.items() if prefix + key not in item]
    return [(key, number) for key, number in found if number is not None]


def repeated_bytes(attributes: Attributes) -> int:
    """How many bytes these attributes add to every item that they are stored with."""
    return sum(len(key) + len(value.text) for key, value in attributes.items())


def dropped_count(told: int, dropped_here: int) -> int:
    """What the sender dropped and what we did, as far as UInt32 counts."""
    return min(told + dropped_here, MAX_UINT32)


def _entity_refs(refs: Any, policy: Policy, flags: Flags) -> bytes:
    if not refs:
        return b""

    def text(raw: bytes) -> str:
        return repair(raw, flags).decode()

    data = [
        {
            "schemaUrl": text(ref.schema_url),
            "type": text(ref.type),
            "idKeys": [text(key) for key in ref.id_keys],
            "descriptionKeys": [text(key) for key in ref.description_keys],
        }
        for ref in refs
    ]
    json = compact_json(data)
    if len(json) > policy.max_value_bytes:
        flags.add(Modification.TRUNCATED)
        return b""
    return json
