"""The settings of serializers and deserializers.

They have Confluent's names. A program gives them as a dict, where an unknown name is an error. In
the properties of a client they stand beside the client's own, and may begin with `key.` or
`value.`, so that both can differ.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from odradek.config.spelling import did_you_mean
from odradek.schemas.errors import BadSetting
from odradek.schemas.serializers.subjects import Strategy, strategy_of, topic_subject_name_strategy

# Settings of Confluent's serializers that we do not obey, and the values that change nothing.
_REFUSED: Final[dict[str, tuple[str, tuple[object, ...]]]] = {
    "validation.rules.execution": ("rules of schemas are not executed", ("", "DISABLED")),
    "rule.executors": ("rules of schemas are not executed", ()),
    "rule.actions": ("rules of schemas are not executed", ()),
    "subject.name.strategy.conf": ("associated names are not supported", ()),
    "latest.compatibility.strict": ("the newest version is not compared", ("false",)),
    "schema.reflection": ("schemas come from classes of Python", ("false",)),
    "avro.reflection.allow.null": ("fields may be Optional in classes of Python", ("false",)),
}


@dataclass(frozen=True, slots=True)
class SerdeSettings:
    auto_register: bool = True
    """Registers the schema if it is not registered; else it must be there."""
    normalize: bool = False
    use_latest: bool = False
    """Writes with the newest version of the subject; reads into it."""
    latest_metadata: Mapping[str, str] | None = None
    schema_id: int | None = None
    """Writes with this schema."""
    strategy: Strategy = topic_subject_name_strategy
    reference_strategy: Callable[[Any, Any], str | None] | None = None
    """The subject of an imported Protobuf file; by default its name."""
    in_headers: bool = False
    """Writes the schema's GUID as a header, and no frame."""
    validate: bool = True
    """Checks JSON values with their schema."""
    skip_known_types: bool = True
    """Registers no references to Google's own files."""
    deprecated_format: bool = False
    strict: bool = False
    """Refuses Avro records with fields that the schema does not have, or without one of its."""
    strict_allow_default: bool = False
    ignores_rules: bool = False
    """Writes with schemas that demand rules, without carrying them out."""

    @classmethod
    def from_conf(cls, conf: Mapping[str, object] | None) -> Self:
        """Reads the dict of a program."""
        given = dict(conf or {})
        for name in given:
            if name not in _DECLARED and name not in _REFUSED:
                hint = did_you_mean(name, _DECLARED)
                raise BadSetting(f"there is no setting {name} of a serializer{hint}")
        return cls._made(given)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], field: str) -> Self:
        """Reads those properties that are settings of serializers, and ignores the others."""
        return cls._made(cls.given_in(properties, field))

    @staticmethod
    def given_in(properties: Mapping[str, object], field: str) -> dict[str, object]:
        """Returns those properties that are settings of serializers, as `from_conf` takes them."""
        found: dict[str, object] = {}
        for name in (*_DECLARED, *_REFUSED):
            value = properties.get(f"{field}.{name}", properties.get(name))
            if value is not None:
                found[name] = value
        return found

    @classmethod
    def _made(cls, given: Mapping[str, object]) -> Self:
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name in _REFUSED:
                reason, harmless = _REFUSED[name]
                if value is not None and str(value) not in harmless and value not in harmless:
                    raise BadSetting(f"{name} is not supported: {reason}; leave it out")
                continue
            attribute, parse = _DECLARED[name]
            if value is not None:
                values[attribute] = parse(name, value)
        made = cls(**values)
        if made.use_latest or made.latest_metadata is not None or made.schema_id is not None:
            if values.get("auto_register"):
                raise BadSetting(
                    "auto.register.schemas=true cannot go with use.latest.version, use.schema.id or"
                    " use.latest.with.metadata: leave it out"
                )
            made = replace(made, auto_register=False)
        if made.use_latest and made.schema_id is not None:
            raise BadSetting("give use.latest.version or use.schema.id, not both")
        return made


def _flag(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in {"true", "false"}:
        raise BadSetting(f"{name} must be true or false, not {value!r}")
    return text == "true"


def _id(name: str, value: object) -> int | None:
    try:
        number = int(str(value))
    except ValueError:
        raise BadSetting(f"{name} must be a number, not {value!r}") from None
    return None if number < 0 else number


def _metadata(name: str, value: object) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return {str(key): str(text) for key, text in value.items()}
    pairs = [pair.partition("=") for pair in str(value).split(",")]
    if not all(equals for _, equals, _ in pairs):
        raise BadSetting(f"{name} must be a dict, or like key=value,key=value")
    return {key.strip(): text.strip() for key, _, text in pairs}


def _is_in_headers(name: str, value: object) -> bool:
    """Accepts the functions of confluent-kafka, and Java's classes, by their names. Deserializers
    look at both places whatever is set."""
    text = value.__name__ if callable(value) and hasattr(value, "__name__") else str(value)
    short = text.rpartition(".")[2].lower().replace("_", "")
    if short.startswith("header"):
        return True
    if short.startswith(("prefix", "dual", "confluent")):
        return False
    raise BadSetting(
        f"{name}={text} must be header_schema_id_serializer or prefix_schema_id_serializer"
    )


def _function(name: str, value: object) -> Any:
    if not callable(value):
        raise BadSetting(f"{name} must be a function")
    return value


_Parse = Callable[[str, Any], Any]
_DECLARED: Final[dict[str, tuple[str, _Parse]]] = {
    "auto.register.schemas": ("auto_register", _flag),
    "normalize.schemas": ("normalize", _flag),
    "use.latest.version": ("use_latest", _flag),
    "use.latest.with.metadata": ("latest_metadata", _metadata),
    "use.schema.id": ("schema_id", _id),
    "subject.name.strategy": ("strategy", strategy_of),
    "subject.name.strategy.type": ("strategy", strategy_of),
    "reference.subject.name.strategy": ("reference_strategy", _function),
    "schema.id.serializer": ("in_headers", _is_in_headers),
    "schema.id.deserializer": ("in_headers", _is_in_headers),
    "validate": ("validate", _flag),
    "json.fail.invalid.schema": ("validate", _flag),
    "skip.known.types": ("skip_known_types", _flag),
    "use.deprecated.format": ("deprecated_format", _flag),
    "validate.strict": ("strict", _flag),
    "validate.strict.allow.default": ("strict_allow_default", _flag),
    "odradek.ignore.rules": ("ignores_rules", _flag),
}


def header_schema_id_serializer(payload: bytes, ctx: Any, schema_id: Any) -> bytes:
    """The value of `schema.id.serializer` that puts schema ids into headers. It is a name only:
    serializers never call it."""
    raise NotImplementedError("it is a value of the setting schema.id.serializer")


def prefix_schema_id_serializer(payload: bytes, ctx: Any, schema_id: Any) -> bytes:
    """The value of `schema.id.serializer` that puts schema ids before payloads: the default."""
    raise NotImplementedError("it is a value of the setting schema.id.serializer")
