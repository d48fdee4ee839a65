"""The layout of a struct on the wire: its fields, their kinds, and the versions that have them.

Declarations (`schema`) produce layouts; the codec compiles them. A layout never changes
once its class exists, so everything derived from it may be cached.
"""

from typing import Any, Final, NamedTuple, dataclass_transform

NEVER: Final = "none"
"""The versions of what does not exist."""

_FOREVER: Final = 1 << 15

FIXED_FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "boolean": "?",
    "uuid": "16s",
}
"""The kinds of one size, as `struct` writes them."""

FIXED_SIZES: Final = {
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint16": 2,
    "uint32": 4,
    "float64": 8,
    "boolean": 1,
    "uuid": 16,
}


class VersionRange(NamedTuple):
    """Versions from `first` to `last`, both included; empty if `last` is before `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        """Reads Kafka's notation: `4+`, `1-11`, `3` or `none`."""
        # All messages together have 2,900 ranges, of which about 40 differ.
        parsed = _PARSED.get(text)
        if parsed is None:
            if text == NEVER:
                parsed = cls(_FOREVER, -1)
            elif text.endswith("+"):
                parsed = cls(int(text[:-1]), _FOREVER)
            else:
                first, _, last = text.partition("-")
                parsed = cls(int(first), int(last or first))
            _PARSED[text] = parsed
        return parsed

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


_PARSED: Final[dict[str, VersionRange]] = {}


class Field:
    """One declared field. `kind` is a key of `FIXED_FORMATS`, or string, bytes, records,
    array or struct; `element` is what an array holds, or the class of a struct."""

    __slots__ = ("default", "element", "kind", "name", "nullable", "tag", "tagged", "versions")

    def __init__(
        self,
        kind: str,
        versions: VersionRange,
        default: object,
        *,
        nullable: VersionRange,
        tag: int | None,
        tagged: VersionRange,
        element: "str | StructType | None",
    ) -> None:
        self.name = ""  # given by the class that declares it
        self.kind = kind
        self.versions = versions
        self.default = default
        self.nullable = nullable
        self.tag = tag
        self.tagged = tagged
        self.element = element

    @property
    def has_mutable_default(self) -> bool:
        """Whether each message needs a default of its own: lists and structs do."""
        return self.default is not None and self.kind in ("array", "struct")


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """The metaclass of structs: it turns the declared fields into slots."""

    fields: tuple[Field, ...]
    versions: VersionRange
    flexible_versions: VersionRange
    _decoders: dict[int, Any]
    _encoders: dict[int, Any]

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        *,
        versions: str | None = None,
        flexible: str = NEVER,
    ) -> "StructType":
        fields = []
        for field_name, value in list(namespace.items()):
            if isinstance(value, Field):
                value.name = field_name
                fields.append(value)
                del namespace[field_name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["fields"] = tuple(fields)
        made = super().__new__(mcs, name, bases, namespace)
        if versions is not None:
            made.bind_versions(VersionRange.parse(versions), VersionRange.parse(flexible))
        return made

    def __init__(
        cls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        **_: str | None,
    ) -> None:
        super().__init__(name, bases, namespace)

    def bind_versions(cls, versions: VersionRange, flexible: VersionRange) -> None:
        """Says in which versions the struct stands alone on the wire, as a message. Parts of
        messages have no versions of their own."""
        cls.versions = versions
        cls.flexible_versions = flexible
        cls._decoders = {}
        cls._encoders = {}

    def first_version_with(cls, field_name: str) -> int:
        """Returns the first version that has a field, for code that serves several versions."""
        return cls._field(field_name).versions.first

    def first_version_with_null(cls, field_name: str) -> int:
        """Returns the first version in which a field may be null."""
        return cls._field(field_name).nullable.first

    def _field(cls, name: str) -> Field:
        for field in cls.fields:
            if field.name == name:
                return field
        raise AttributeError(f"{cls.__name__} has no field {name}")


def tagged_fields(layout: StructType, version: int) -> list[Field]:
    return sorted(
        (field for field in layout.fields if version in field.tagged),
        key=lambda field: field.tag or 0,
    )


def plain_fields(layout: StructType, version: int) -> list[Field]:
    return [f for f in layout.fields if version in f.versions and version not in f.tagged]


def last_change(layout: StructType) -> int:
    """Returns the last version in which a field of the struct, or of a struct within it, appears,
    disappears, or becomes nullable or tagged; 0 if all versions are the same."""
    last = 0
    for field in layout.fields:
        for versions in (field.versions, field.nullable, field.tagged):
            if versions.last == _FOREVER:
                last = max(last, versions.first)
            elif versions.last >= versions.first:
                last = max(last, versions.last + 1)
        if isinstance(field.element, StructType):
            last = max(last, last_change(field.element))
    return last


def contains_records(layout: StructType, version: int) -> bool:
    return any(
        field.kind == "records"
        or (not isinstance(field.element, str | None) and contains_records(field.element, version))
        for field in plain_fields(layout, version)
    )


def min_size(kind: "str | StructType", version: int, flexible: bool) -> int:
    """Returns the fewest bytes that a value can take; it limits the claimed length of an array."""
    if isinstance(kind, str):
        if kind in FIXED_SIZES:
            return FIXED_SIZES[kind]
        if flexible:
            return 1
        return 2 if kind == "string" else 4
    size = 1 if flexible else 0
    for field in plain_fields(kind, version):
        if field.kind != "struct":
            size += min_size(field.kind, version, flexible)
        elif version in field.nullable:
            size += 1
        elif field.element is not None:
            size += min_size(field.element, version, flexible)
    return max(size, 1)
