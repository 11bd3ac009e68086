"""Resource and scope, and their columns in every row (docs/codec.md 3)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from proto.otlp.policy import MAX_ITEM_TRUNCATIONS, MAX_ORIGIN_TRUNCATIONS, ItemModification, Policy
from proto.otlp.reference.text import Flags, clean, compact_json, encode_truncations, repair, truncate
from proto.otlp.reference.values import Value, ValueReader

MAX_UINT32: Final = 2**32 - 1

Attributes = Mapping[bytes, Value]


@dataclass(frozen=True)
class ResourceColumns:
    """The columns of the resource, which is the entity that sent the items."""

    attributes: Attributes
    dropped: int
    schema_url: bytes
    entity_refs: bytes
    service_name: bytes
    environment: bytes
    release: bytes
    flags: Flags


@dataclass(frozen=True)
class ScopeColumns:
    """The columns of the scope, which is the instrumentation that created the items."""

    name: bytes
    version: bytes
    attributes: Attributes
    dropped: int
    schema_url: bytes
    flags: Flags


def read_resource(resource: Any, schema_url: bytes, values: ValueReader, policy: Policy) -> ResourceColumns:
    flags = Flags()
    attributes, over_limit = _limit_attributes(
        policy.max_resource_bytes, *values.attributes(resource.attributes, flags, "/resource/attributes"), flags
    )

    def text(key: bytes) -> bytes:
        return attributes[key].sent_text if key in attributes else b""

    def name(text: bytes) -> bytes:
        return truncate(text, policy.max_name_bytes)

    environment = text(b"deployment.environment.name") or text(b"deployment.environment") or b"unknown"
    return ResourceColumns(
        attributes=attributes,
        dropped=dropped_count(resource.dropped_attributes_count, over_limit),
        schema_url=clean(schema_url, policy.max_name_bytes, flags, "/resource/schemaUrl"),
        entity_refs=_entity_refs(resource.entity_refs, policy, flags),
        service_name=name(text(b"service.name")),
        environment=name(environment),
        release=name(text(b"service.version")),
        flags=flags,
    )


def read_scope(scope: Any, schema_url: bytes, values: ValueReader, policy: Policy) -> ScopeColumns:
    flags = Flags()
    attributes, over_limit = _limit_attributes(
        policy.max_scope_bytes, *values.attributes(scope.attributes, flags, "/scope/attributes"), flags
    )
    url = clean(schema_url, policy.max_name_bytes, flags, "/scope/schemaUrl")
    return ScopeColumns(
        name=clean(scope.name, policy.max_name_bytes, flags, "/scope/name"),
        version=clean(scope.version, policy.max_name_bytes, flags, "/scope/version"),
        attributes=attributes,
        dropped=dropped_count(scope.dropped_attributes_count, over_limit),
        schema_url=url,
        flags=flags,
    )


def _limit_attributes(limit: int, attributes: Attributes, dropped: int, flags: Flags) -> tuple[Attributes, int]:
    """The attributes, in order, that fit into a text of `limit` bytes (0: no limit), and the number of dropped ones."""
    kept, size = {}, 0
    for key, value in attributes.items():
        entry_size = 3 + len(escape(key)) + len(escape(value.text))
        if limit and size + entry_size > limit:
            continue
        kept[key] = value
        size += entry_size
    if len(kept) < len(attributes):
        flags.add(ItemModification.TRUNCATED)
        flags.truncations = [each for each in flags.truncations if _attribute_key(each.path) in kept]
    return kept, dropped + len(attributes) - len(kept)


def _attribute_key(path: str) -> bytes:
    """The key of an attribute of a resource or a scope, taken from the path of the attribute or of a part of it."""
    return path.split("/")[3].replace("~1", "/").replace("~0", "~").encode()


def resource_scope_bytes(resource: ResourceColumns, scope: ScopeColumns) -> int:
    """The bytes of the columns `resource` and `scope` of one item, and of the entries of `truncations` for both."""
    texts = (encode_attributes(resource.attributes), encode_attributes(scope.attributes))
    return sum(map(len, (*texts, _origin_truncations(resource), _origin_truncations(scope))))


def _origin_truncations(origin: ResourceColumns | ScopeColumns) -> bytes:
    return encode_truncations(origin.flags.truncations, MAX_ORIGIN_TRUNCATIONS)


def shared_cells(
    item: Attributes, dropped: int, flags: Flags, resource: ResourceColumns, scope: ScopeColumns
) -> tuple[object, ...]:
    """The cells of the columns that spans and logs share, from `service_name` to `truncations`."""
    own = encode_truncations(flags.truncations, MAX_ITEM_TRUNCATIONS)
    truncations = b",".join(filter(None, (own, _origin_truncations(resource), _origin_truncations(scope))))
    return (
        resource.service_name,
        resource.environment,
        resource.release,
        [(key, value.text) for key, value in item.items()],
        _join_entries((key, value.type_tag.encode()) for key, value in item.items()),
        dropped,
        encode_attributes(resource.attributes),
        resource.dropped,
        resource.schema_url,
        resource.entity_refs,
        scope.name,
        scope.version,
        encode_attributes(scope.attributes),
        scope.dropped,
        scope.schema_url,
        truncations and b"[%s]" % truncations,
    )


def encode_attributes(attributes: Attributes) -> bytes:
    """An attribute list with types and texts, encoded as one text."""
    return _join_entries((key, value.type_tag.encode() + escape(value.text)) for key, value in attributes.items())


def _join_entries(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    text = b"".join(b"\1" + escape(key) + b"\2" + rest for key, rest in entries)
    return text and text + b"\1"


def escape(text: bytes) -> bytes:
    """`text` with escaped separators of keys and texts."""
    return text.replace(b"\3", b"\3C").replace(b"\1", b"\3A").replace(b"\2", b"\3B")


def numeric_names(item: Attributes, resource: ResourceColumns, scope: ScopeColumns) -> dict[bytes, bool]:
    """The names of all attributes that apply to the item, and whether each value is a finite number. An attribute of
    the item takes precedence over attributes of resource and scope.
    """
    names = {key: value.is_finite_number for key, value in item.items()}
    for prefix, attributes in ((b"resource.", resource.attributes), (b"scope.", scope.attributes)):
        for key, value in attributes.items():
            names.setdefault(prefix + key, value.is_finite_number)
    for name, text in ((b"scope.name", scope.name), (b"scope.version", scope.version)):
        if text:
            names.setdefault(name, False)
    return names


def dropped_count(sent: int, dropped_here: int) -> int:
    """The number of attributes that the sender and this decoder dropped, at most the maximum of UInt32."""
    return min(sent + dropped_here, MAX_UINT32)


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
        flags.cut("/resource/entityRefs", len(json))
        return b""
    return json
