"""Load settings once at the start, from the environment and a TOML file, into a frozen structure per service.

The settings of all services (`chassis.runtime.settings`) have the names `SLUICE_<FIELD>`, and are at the top level of
the file. A service adds its own structure, whose fields have the names `SLUICE_<SERVICE>_<FIELD>` and are in the table
`[<service>]` of the same file. An unknown name or an invalid value prevents the start with a message that names it.
Each field has a description, a unit and the meaning of 0. `describe` returns them for `sluice config` and
docs/settings.md.
"""

import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args, get_origin, get_type_hints

import msgspec

from chassis.errors import StartupError

PREFIX = "SLUICE_"
SERVICES = ("gateway", "query", "control")
CONFIG_VARIABLE = "SLUICE_CONFIG"  # not a setting, because it names the TOML file
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]

_KINDS: Final[Mapping[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    Port | None: "empty or a whole number, 0 to 65535",
}


class SettingsError(StartupError):
    """A setting has an unknown name or an invalid value. The message names the setting."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=2)


def setting(
    doc: str,
    *,
    unit: str = "",
    zero: str = "",
    secret: bool = False,
    shown_default: str | None = None,
    ge: float | None = None,
    le: float | None = None,
    advanced: str = "",
) -> msgspec.Meta:
    """Describe one field: its unit, the meaning of 0 (or of an empty value), and the bounds of its value.

    `advanced` says when to change a setting that most operators do not need. It is empty for other settings.
    """
    extra = {"unit": unit, "zero": zero, "secret": secret, "shown_default": shown_default, "advanced": advanced}
    return msgspec.Meta(description=doc, extra=extra, ge=ge, le=le)


class SettingInfo(msgspec.Struct, frozen=True):
    """One row of `sluice config`. `value` is masked when the setting is secret."""

    name: str
    key: str
    unit: str
    default: str
    zero: str
    doc: str
    value: str
    advanced: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all settings structures: loading and validation."""

    prefix: ClassVar[str] = PREFIX

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str],
        toml_path: Path | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> Self:
        """Read values from defaults, the file, the environment and `overrides` (command-line options). Later sources
        replace earlier ones.

        Raises SettingsError, which names every unknown or invalid setting.
        """
        values, origins = _gather(cls.prefix, environ, toml_path, _optional_fields(cls))
        for name, value in (overrides or {}).items():
            values[name], origins[name] = value, f"--{name.replace('_', '-')}"
        _reject_unknown(cls, values, origins)
        _reject_invalid(cls, values, origins)
        settings = msgspec.convert(values, cls, strict=False)
        settings.validate()
        return settings

    def validate(self) -> None:
        """Check constraints between fields. Raises SettingsError."""


def environment(environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """The `SLUICE_` variables of the process environment. No other code reads the environment."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if name.startswith(PREFIX)}


def describe(settings: Settings) -> list[SettingInfo]:
    """Every field of `settings` in declaration order, with its current value (secrets masked)."""
    cls = type(settings)
    defaults = {field.name: field.default for field in msgspec.structs.fields(cls)}
    rows = []
    for name, meta in _metas(cls).items():
        extra = meta.extra or {}
        value = getattr(settings, name)
        masked = "********" if extra["secret"] and value else _format_value(value)
        default = extra["shown_default"] or _format_value(defaults[name])
        rows.append(
            SettingInfo(
                name=cls.prefix + name.upper(),
                key=_table_prefix(cls.prefix) + name,
                unit=extra["unit"],
                default=default,
                zero=extra["zero"],
                doc=meta.description or "",
                value=masked,
                advanced=extra["advanced"],
            )
        )
    return rows


def _gather(
    prefix: str, environ: Mapping[str, str], toml_path: Path | None, optional: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The values by field, and the origin of each value. The environment overrides the file. Empty variables count as
    unset, except the variables of `optional` fields.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, value in _file_values(prefix, toml_path).items():
        values[name], origins[name] = value, f"{_table_prefix(prefix)}{name} in {toml_path}"
    for name, text in environ.items():
        if not name.startswith(prefix) or name == CONFIG_VARIABLE or _belongs_to_another(prefix, name):
            continue
        field = name.removeprefix(prefix).lower()
        if text == "" and field not in optional:
            continue
        values[field], origins[field] = text, name
    return values, origins


def _belongs_to_another(prefix: str, name: str) -> bool:
    return prefix == PREFIX and any(name.startswith(f"{PREFIX}{service.upper()}_") for service in SERVICES)


def _file_values(prefix: str, toml_path: Path | None) -> dict[str, Any]:
    if toml_path is None:
        return {}
    try:
        document = tomllib.loads(toml_path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The settings file {toml_path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {toml_path} is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise SettingsError(f"The settings file {toml_path} is nested too deeply.") from error
    if prefix == PREFIX:
        return {name: value for name, value in document.items() if name not in SERVICES}
    table = document.get(_table_prefix(prefix).rstrip("."), {})
    if not isinstance(table, dict):
        raise SettingsError(f"{_table_prefix(prefix).rstrip('.')} in {toml_path} must be a table.")
    return table


def _table_prefix(prefix: str) -> str:
    """The table of a prefix in the file: `gateway.` for SLUICE_GATEWAY_, empty for the settings of all services."""
    service = prefix.removeprefix(PREFIX).rstrip("_").lower()
    return f"{service}." if service else ""


def _reject_unknown(cls: type[Settings], values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    known = _metas(cls)
    unknown = sorted(origins[name] for name in values if name not in known)
    if unknown:
        plural = "s" if len(unknown) > 1 else ""
        raise SettingsError(
            f"Unknown setting{plural}: {', '.join(unknown)}. Only settings may have names that begin "
            f"with {PREFIX}. `sluice config` lists all settings."
        )


def _reject_invalid(cls: type[Settings], values: dict[str, Any], origins: Mapping[str, str]) -> None:
    """Convert each field separately, so that every invalid value is reported with its origin."""
    hints = get_type_hints(cls, include_extras=True)
    metas, optional = _metas(cls), _optional_fields(cls)
    problems = []
    for name in list(values):
        if _is_sequence(hints[name]) and isinstance(values[name], str):
            values[name] = [part.strip() for part in values[name].split(",") if part.strip()]
        elif values[name] == "" and name in optional:
            values[name] = None
        try:
            values[name] = msgspec.convert(values[name], hints[name], strict=False)
        except msgspec.ValidationError:
            problems.append(f"{origins[name]}: must be {_expected_value(hints[name].__origin__, metas[name])}")
    if problems:
        raise SettingsError(f"Invalid setting: {'; '.join(problems)}.")


def _expected_value(kind: Any, meta: msgspec.Meta) -> str:
    """The expected type and bounds of a value, for messages."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    expected = _KINDS.get(kind, "a list of strings")
    if meta.ge is not None and meta.le is not None:
        return f"{expected}, {meta.ge} to {meta.le}"
    return expected if meta.ge is None else f"{expected} of at least {meta.ge}"


def _optional_fields(cls: type[Settings]) -> set[str]:
    """The fields for which an empty variable is a value: None."""
    hints = get_type_hints(cls, include_extras=True)
    return {name for name in _metas(cls) if NoneType in get_args(getattr(hints[name], "__origin__", None))}


def _is_sequence(hint: Any) -> bool:
    return str(getattr(hint, "__origin__", hint)).startswith("tuple")


def _metas(cls: type[Settings]) -> dict[str, msgspec.Meta]:
    hints = get_type_hints(cls, include_extras=True)
    metas = {}
    for field in msgspec.structs.fields(cls):
        found = [meta for meta in getattr(hints[field.name], "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
        if not found or found[0].extra is None:
            raise TypeError(f"{cls.__name__}.{field.name} needs setting(...)")
        metas[field.name] = found[0]
    return metas


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return ",".join(str(part) for part in value)
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
