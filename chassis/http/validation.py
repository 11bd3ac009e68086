"""Validation of request input: typed bodies, bounded query parameters, one issue per offending field.

Errors of the query that are known before the handler runs (`with_known_issues`) are in every `Issues` that the handler
makes, so the handler's first check raises them together with its own errors.

Valid input costs one typed decode. msgspec stops at the first error, so invalid input is checked again, field by field.
The size of the body and MAX_ISSUES limit this second pass.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from aiohttp import web

from chassis.errors import BadRequest, Issue
from chassis.http.body import read_body, require_media_type
from chassis.http.faulty_items import is_any_under, replace_faulty_items
from proto.json_keys import find_repeated_keys

MAX_ISSUES: Final = 100  # a body of a million invalid elements gets a short response, not a megabyte
MAX_PATH_LENGTH: Final = 200
MAX_MESSAGE_LENGTH: Final = 500  # enough for the longest list of names that a field accepts
_INTEGER: Final = re.compile(r"-?[0-9]+")
_MAX_DIGITS: Final = 18  # Python refuses to parse thousands of them
MAX_EXPLAINED_BYTES: Final = (
    2**20
)  # for a larger body only the first error is reported, because untyped decoding takes far more memory
_LOCATION: Final = re.compile(r" - at `\$([^`]*)`\Z")

# msgspec has one exception class, and only its message distinguishes the errors.
_CODES: Final = (
    (re.compile(r"^Object missing required field"), "missing"),
    (re.compile(r"^Object contains unknown field"), "unknown_field"),
    (re.compile(r"^Expected `\w+` of length <="), "too_long"),
    (re.compile(r"^Expected `\w+` of length >="), "too_short"),
    (re.compile(r"^Expected `\w+` of length"), "wrong_length"),
    (re.compile(r"^Expected `\w+` (?:<|<=) "), "too_large"),
    (re.compile(r"^Expected `\w+` (?:>|>=) "), "too_small"),
    (re.compile(r"^Expected `\w+` matching regex"), "format"),
    (re.compile(r"^Invalid enum value"), "not_allowed"),
    (re.compile(r"^Expected `.*`, got `"), "type"),
)

# The JSON names of the types in msgspec's messages.
_JSON_TYPES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_QUOTED_TYPES: Final = re.compile(r"\b(Expected|got) `(\w+(?: \| \w+)*)`")

T = TypeVar("T")


_KNOWN_ISSUES: Final[ContextVar[tuple[Issue, ...]]] = ContextVar("known_issues", default=())


class Issues:
    """Collects the errors of one request, at most MAX_ISSUES. `raise_if_any` raises them as one 400."""

    def __init__(self) -> None:
        self._issues: list[Issue] = list(_KNOWN_ISSUES.get())

    def __len__(self) -> int:
        return len(self._issues)

    def __iter__(self) -> Iterator[Issue]:
        return iter(self._issues)

    @property
    def is_full(self) -> bool:
        return len(self._issues) >= MAX_ISSUES

    def has_issue_under(self, path: str) -> bool:
        """Whether there is an issue at `path` or below it."""
        return is_any_under(path, (each.path for each in self._issues))

    def add(self, path: str, message: str, code: str) -> None:
        """Add an issue, unless there are MAX_ISSUES. `path` has the form `query.limit` or `body.filters[0].op`. `code`
        is a word for programs.
        """
        if not self.is_full:
            self._issues.append(Issue(path[:MAX_PATH_LENGTH], message[:MAX_MESSAGE_LENGTH], code))

    def raise_if_any(self, message: str = "The request is not valid.") -> None:
        if self._issues:
            raise BadRequest(message, self._issues)


@contextmanager
def with_known_issues(issues: Iterable[Issue]) -> Iterator[None]:
    """Make every `Issues` that is created inside the context begin with these issues."""
    token = _KNOWN_ISSUES.set(tuple(issues))
    try:
        yield
    finally:
        _KNOWN_ISSUES.reset(token)


def single_value(query: Mapping[str, str], name: str, issues: Issues) -> str | None:
    """The value of a query parameter. None when the parameter is absent, or repeated, which is recorded as an issue."""
    getall = getattr(query, "getall", None)
    if getall is not None and len(getall(name, ())) > 1:
        issues.add(f"query.{name}", "Must not be repeated.", "repeated")
        return None
    return query.get(name)


def bounded_int(query: Mapping[str, str], name: str, default: int, lo: int, hi: int, issues: Issues) -> int:
    """A decimal integer within [lo, hi]. `default` when the parameter is absent or an issue was recorded."""
    text = single_value(query, name, issues)
    if text is None:
        return default
    if _INTEGER.fullmatch(text) is None:
        issues.add(f"query.{name}", "Must be an integer.", "type")
    elif len(text) > _MAX_DIGITS:
        bound = ("too_small", "least", lo) if text.startswith("-") else ("too_large", "most", hi)
        issues.add(f"query.{name}", f"Must be at {bound[1]} {bound[2]}.", bound[0])
    elif int(text) < lo:
        issues.add(f"query.{name}", f"Must be at least {lo}.", "too_small")
    elif int(text) > hi:
        issues.add(f"query.{name}", f"Must be at most {hi}.", "too_large")
    else:
        return int(text)
    return default


def bounded_text(query: Mapping[str, str], name: str, lo: int, hi: int, issues: Issues) -> str | None:
    """A text of lo to hi characters. None when the parameter is absent or an issue was recorded."""
    text = single_value(query, name, issues)
    if text is None:
        return None
    return text if check_length(f"query.{name}", text, lo, hi, issues) else None


def check_length(path: str, text: str, lo: int, hi: int, issues: Issues) -> bool:
    """Whether the text has lo to hi characters. Records an issue if not."""
    if len(text) > hi:
        issues.add(path, f"Must have at most {hi} characters.", "too_long")
    elif len(text) < lo:
        issues.add(path, f"Must have at least {lo} character{'s' if lo != 1 else ''}.", "too_short")
    else:
        return True
    return False


def must_be_one_of(names: Iterable[str]) -> str:
    """The message of an issue for a value that is not one of `names`."""
    return f"Must be one of {', '.join(names)}."


def decode_json(type_: type[T], raw: bytes, path: str, issues: Issues, *, unique_keys: bool = True) -> T | None:
    """Decode JSON bytes as `type_`. Records an issue for every invalid field under `path`, and returns None if there
    are any. Unless `unique_keys` is False, a key that an object has twice is an issue too, also if `type_` ignores the
    key.
    """
    decoded = None
    before = len(issues)
    try:
        try:
            decoded = msgspec.json.decode(raw, type=type_)
        except msgspec.ValidationError as error:
            if len(raw) > MAX_EXPLAINED_BYTES:
                location = _LOCATION.search(str(error))
                _report(path + (location[1] if location else ""), error, issues)
            else:  # the typed decoder stopped at the first error, and the rest may not be valid JSON
                _explain(type_, msgspec.json.decode(raw), path, error, issues)
        if unique_keys and (decoded is not None or len(raw) <= MAX_EXPLAINED_BYTES):
            _report_repeated_keys(raw, path, issues)
    except (msgspec.DecodeError, UnicodeDecodeError):
        issues.add(path, "Must be valid JSON.", "malformed")
    except RecursionError:
        issues.add(path, "Is nested too deeply.", "malformed")
    return decoded if len(issues) == before else None


def _report_repeated_keys(raw: bytes, path: str, issues: Issues) -> None:
    for place in find_repeated_keys(raw, msgspec.json.decode(raw)):
        if issues.is_full:
            return
        issues.add(path + place, "The object has this key more than once. Keep one.", "repeated")


def decode_with_placeholders(type_: type[T], raw: bytes, placeholders: Mapping[str, Any], issues: Issues) -> T | None:
    """Decode a JSON body as `type_` even if the body is invalid, so that further checks can run in the same pass.

    Every error is an issue under `body`. An invalid field gets its value from `placeholders`, or its default. An
    invalid item of a list `name`, at any depth, is replaced with `placeholders["name[]"]`, so that the other items keep
    their indexes and can be checked. The result must not be used when there are issues. None when `type_` cannot be
    built even with placeholders.
    """
    decoded = decode_json(type_, raw, "body", issues)
    if decoded is not None:
        return decoded
    try:
        fields = msgspec.json.decode(raw)
        if not isinstance(fields, dict):
            return None
        left = replace_faulty_items(fields, "body", placeholders, [issue.path for issue in issues])
        valid = {
            field.encode_name: fields[field.encode_name]
            for field in msgspec.structs.fields(type_)  # type: ignore[arg-type]  # TypeError for a type without fields
            if field.encode_name in fields and not is_any_under(f"body.{field.encode_name}", left)
        }
        named = {name: value for name, value in placeholders.items() if not name.endswith("[]")}
        return msgspec.convert({**named, **valid}, type_)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError, RecursionError):
        return None


async def read_json(
    request: web.Request, type_: type[T], issues: Issues | None = None, *, max_bytes: int, timeout_s: float
) -> T:
    """Read the JSON body as `type_`. Raises, in this order, UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable
    (if the body does not arrive in time), and BadRequest as `decode_body` does.
    """
    return decode_body(type_, await read_json_bytes(request, max_bytes=max_bytes, timeout_s=timeout_s), issues)


async def read_json_bytes(request: web.Request, *, max_bytes: int, timeout_s: float) -> bytes:
    """Read the bytes of a JSON body. Raises UnsupportedMediaType and the errors of `read_body`: 413, 503, 400."""
    require_media_type(request, ("application/json",))
    return await read_body(request, max_bytes, timeout_s)


def decode_body(type_: type[T], raw: bytes, issues: Issues | None = None) -> T:
    """Decode a JSON body. Raises BadRequest with one issue per invalid field, with paths that start with `body`.

    `issues` belongs to a handler that makes further checks of the body and then raises all issues. Issues that it
    already contains are raised here only together with an error of the body. Unknown fields of the body itself are
    recorded, and the handler raises them together with its own issues.
    """
    collected = Issues() if issues is None else issues
    before = len(collected)
    decoded = decode_json(type_, raw, "body", collected)
    found = list(collected)[before:]
    if issues is not None and found and all(issue.code == "unknown_field" for issue in found):
        decoded = decode_with_placeholders(type_, raw, {}, Issues())
    if issues is None or (found and decoded is None):
        collected.raise_if_any("The request body is not valid.")
    return decoded  # type: ignore[return-value]  # None only for types that permit null


def _explain(type_: Any, value: Any, path: str, error: msgspec.ValidationError, issues: Issues) -> None:
    before = len(issues)
    _walk(type_, value, path, issues)
    if len(issues) == before:  # the typed decoder is stricter than `_walk`, so its error is reported
        _report(path, error, issues)


def _walk(type_: Any, value: Any, path: str, issues: Issues) -> None:
    """Record the innermost errors. A container is reported only when none of its parts is invalid."""
    try:
        msgspec.convert(value, type_)
        return
    except msgspec.ValidationError as error:
        fault = error
    before = len(issues)
    shape = _container(type_, value)
    if shape is None and isinstance(value, dict):
        _report_tag(_tagged_arms(type_), value, path, issues)
    if shape is not None:
        for part_type, part, part_path in _parts(shape, value, path, issues):
            if issues.is_full:
                return
            _walk(part_type, part, part_path, issues)
    if len(issues) == before:
        _report(path, fault, issues, type_)


def _container(type_: Any, value: Any) -> Any:
    """The alternative of `type_` that has parts and fits the kind of `value`. None if no or several alternatives
    fit.
    """
    origin = get_origin(type_)
    if origin is Annotated:
        return _container(get_args(type_)[0], value)
    if origin in (Union, UnionType):
        found = [shape for shape in (_container(arm, value) for arm in get_args(type_)) if shape is not None]
        return found[0] if len(found) == 1 else _tagged_arm(_tagged_arms(type_), value)
    if isinstance(value, dict) and (_is_struct(type_) or (origin is dict)):
        return type_
    if isinstance(value, list) and origin in (list, tuple, frozenset, set):
        return type_
    return None


def _tagged_arms(type_: Any) -> dict[Any, Any]:
    """The structures of a union by their tags. Empty if they have no tags."""
    arms = [arm for arm in get_args(type_) if arm is not NoneType]
    if get_origin(type_) not in (Union, UnionType) or not all(map(_is_struct, arms)):
        return {}
    return {arm.__struct_config__.tag: arm for arm in arms if arm.__struct_config__.tag is not None}


def _tagged_arm(arms: Mapping[Any, Any], value: Any) -> Any:
    """The structure that a value's tag names. None if the tag names no structure."""
    if not arms or not isinstance(value, dict):
        return None
    tag = value.get(_tag_field(arms))
    return arms.get(tag) if isinstance(tag, str) else None


def _report_tag(arms: Mapping[Any, Any], value: Mapping[str, Any], path: str, issues: Issues) -> None:
    """Add an issue for a missing or unknown tag."""
    if arms:
        name = _tag_field(arms)
        code, prefix = ("not_allowed", "") if name in value else ("missing", "Is required. ")
        issues.add(f"{path}.{name}", prefix + must_be_one_of(map(str, arms)), code)


def _tag_field(arms: Mapping[Any, Any]) -> str:
    name: str = next(iter(arms.values())).__struct_config__.tag_field
    return name


def _parts(shape: Any, value: Any, path: str, issues: Issues) -> Iterator[tuple[Any, Any, str]]:
    arguments = get_args(shape)
    if _is_struct(shape):
        yield from _fields(shape, value, path, issues)
    elif get_origin(shape) is dict:
        for key, part in value.items():
            yield arguments[0], key, f"{path}.{key}"
            yield arguments[1], part, f"{path}.{key}"
    elif get_origin(shape) is tuple and arguments[-1] is not Ellipsis:
        yield from (
            (type_, part, f"{path}[{n}]") for n, (type_, part) in enumerate(zip(arguments, value, strict=False))
        )
    else:
        yield from ((arguments[0], part, f"{path}[{n}]") for n, part in enumerate(value))


def _fields(
    shape: type[msgspec.Struct], value: dict[str, Any], path: str, issues: Issues
) -> Iterator[tuple[Any, Any, str]]:
    known = {field.encode_name: field for field in msgspec.structs.fields(shape)}
    for name, field in known.items():
        if name in value:
            yield field.type, value[name], f"{path}.{name}"
        elif field.required:
            names = _allowed_names(field.type)
            issues.add(
                f"{path}.{name}", f"Is required. {must_be_one_of(names)}" if names else "Is required.", "missing"
            )
    config = shape.__struct_config__
    if config.forbid_unknown_fields:
        for name in value:
            if name not in known and name != config.tag_field:
                issues.add(f"{path}.{name}", "Is not a known field.", "unknown_field")


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _report(path: str, error: msgspec.ValidationError, issues: Issues, type_: Any = None) -> None:
    """Add an issue for `error`. For a type of fixed names the message lists the names. For a text of the wrong format
    the message is the `description` in the Meta of its type, which is easier to read than a pattern.
    """
    message = _LOCATION.sub("", str(error))
    code = next((code for pattern, code in _CODES if pattern.search(message)), "invalid")
    names = _allowed_names(type_)
    words = must_be_one_of(names) if names else _description(type_) if code == "format" else None
    issues.add(path, words or f"{in_json_words(message).replace('`', '')}.", code)


def in_json_words(message: str) -> str:
    """A message of msgspec with the JSON names of types."""

    def named(quoted: re.Match[str]) -> str:
        names = " | ".join(_JSON_TYPES.get(name, name) for name in quoted[2].split(" | "))
        return f"{quoted[1]} `{names}`"

    return _QUOTED_TYPES.sub(named, message)


def _allowed_names(type_: Any) -> tuple[str, ...]:
    """The names that a type accepts, if the type accepts only names, null or absence. Empty for any other type."""
    origin = get_origin(type_)
    if origin is Annotated:
        return _allowed_names(get_args(type_)[0])
    if origin is Literal:
        return tuple(map(str, get_args(type_)))
    if isinstance(type_, type) and issubclass(type_, Enum):
        return tuple(str(each.value) for each in type_)
    if origin in (Union, UnionType):
        found = [_allowed_names(arm) for arm in get_args(type_) if arm not in (NoneType, msgspec.UnsetType)]
        return tuple(name for names in found for name in names) if all(found) else ()
    return ()


def _description(type_: Any) -> str | None:
    if get_origin(type_) in (Union, UnionType):
        return next((text for text in map(_description, get_args(type_)) if text), None)
    metas = getattr(type_, "__metadata__", ())
    return next((meta.description for meta in metas if isinstance(meta, msgspec.Meta) and meta.description), None)
