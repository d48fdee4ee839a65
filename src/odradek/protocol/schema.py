"""How messages are declared.

    class MetadataRequestTopic(Struct):
        topic_id: TopicId = uuid("10+")
        name: str | None = string(nullable="10+")

    class MetadataRequest(Request):
        topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
        allow_auto_topic_creation: bool = boolean("4+", default=True)

    class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
        generation: int = int32()

Requests and responses get their key and their versions from the declaration of their API
(`protocol.apis`); other messages, such as the records of internal topics, state their versions.

A class is one message in all its versions: each field says in which it occurs, and fields
a version lacks keep their defaults. Constructors take keywords, all optional. Nothing is
compiled until a message of that class and version is first made, encoded or decoded.

Two departures from Kafka's generated classes: a tagged struct that is absent is `None`
rather than a struct full of defaults, and a value in a field that the version lacks is
left out rather than refused.
"""

import struct
from collections.abc import Callable, Generator
from functools import cache
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Literal,
    Self,
    TypeVar,
    cast,
    overload,
)

from odradek.protocol.decoder import (
    Decoder,
    StepwiseDecoder,
    compile_decoder,
    compile_stepwise_decoder,
)
from odradek.protocol.encoder import (
    Encoder,
    StepwiseEncoder,
    compile_encoder,
    compile_stepwise_encoder,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.layout import NEVER, Field, StructType, VersionRange
from odradek.protocol.types import (
    NO_TOPIC_ID,
    BrokerId,
    Buffer,
    LeaderEpoch,
    Offset,
    Part,
    ProducerEpoch,
    ProducerId,
    TopicId,
)

T = TypeVar("T")
# Field specifiers. Each returns a Field, but says it returns the type of the value, so that
# the annotation beside it is checked against it. Since none of them is listed as a field
# specifier of the dataclass transform, type checkers take the call for the field's default
# value, and so every field as optional: which is what it is.


def _field(
    kind: str,
    versions: str,
    default: object,
    *,
    nullable: str = NEVER,
    tag: int | None = None,
    tagged: str | None = None,
    element: str | StructType | None = None,
) -> Field:
    return Field(
        kind,
        VersionRange.parse(versions),
        default,
        nullable=VersionRange.parse(nullable),
        tag=tag,
        tagged=VersionRange.parse(NEVER if tag is None else tagged or versions),
        element=element,
    )


def int8(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("int8", versions, default, tag=tag))


def int16(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("int16", versions, default, tag=tag))


def int32(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("int32", versions, default, tag=tag))


def int64(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("int64", versions, default, tag=tag))


def uint16(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("uint16", versions, default, tag=tag))


def uint32(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> int:
    return cast(int, _field("uint32", versions, default, tag=tag))


def float64(versions: str = "0+", *, default: float = 0.0, tag: int | None = None) -> float:
    return cast(float, _field("float64", versions, default, tag=tag))


def boolean(versions: str = "0+", *, default: bool = False, tag: int | None = None) -> bool:
    return cast(bool, _field("boolean", versions, default, tag=tag))


# Numbers that have a type of their own (`protocol.types`). Decoded messages hold values of these
# types, so handlers pass them on without a conversion.


def offset_field(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> Offset:
    return cast(Offset, _field("int64", versions, default, tag=tag))


def leader_epoch_field(
    versions: str = "0+", *, default: int = 0, tag: int | None = None
) -> LeaderEpoch:
    return cast(LeaderEpoch, _field("int32", versions, default, tag=tag))


def producer_id_field(
    versions: str = "0+", *, default: int = 0, tag: int | None = None
) -> ProducerId:
    return cast(ProducerId, _field("int64", versions, default, tag=tag))


def producer_epoch_field(
    versions: str = "0+", *, default: int = 0, tag: int | None = None
) -> ProducerEpoch:
    return cast(ProducerEpoch, _field("int16", versions, default, tag=tag))


def broker_id_field(versions: str = "0+", *, default: int = 0, tag: int | None = None) -> BrokerId:
    return cast(BrokerId, _field("int32", versions, default, tag=tag))


def uuid(versions: str = "0+", *, tag: int | None = None) -> TopicId:
    return cast(TopicId, _field("uuid", versions, NO_TOPIC_ID, tag=tag))


@overload
def string(
    versions: str = ..., *, default: str = ..., tag: int | None = ..., tagged: str | None = ...
) -> str: ...
@overload
def string(
    versions: str = ...,
    *,
    nullable: str,
    default: str | None = ...,
    tag: int | None = ...,
    tagged: str | None = ...,
) -> str | None: ...
def string(
    versions: str = "0+",
    *,
    nullable: str = NEVER,
    default: str | None = "",
    tag: int | None = None,
    tagged: str | None = None,
) -> str | None:
    made = _field("string", versions, default, nullable=nullable, tag=tag, tagged=tagged)
    return cast(str, made)


@overload
def bytes_(versions: str = ..., *, default: bytes = ...) -> bytes: ...
@overload
def bytes_(versions: str = ..., *, nullable: str, default: bytes | None = ...) -> bytes | None: ...
def bytes_(
    versions: str = "0+", *, nullable: str = NEVER, default: bytes | None = b""
) -> bytes | None:
    return cast(bytes, _field("bytes", versions, default, nullable=nullable))


def record_batches(versions: str = "0+", *, nullable: str = "0+") -> Buffer | None:
    """Record batches: a view into the frame when decoded, anything with a length to encode."""
    return cast(Buffer, _field("records", versions, None, nullable=nullable))


@overload
def array(
    element: Callable[..., T], versions: str = ..., *, tag: int | None = ..., tagged: str = ...
) -> list[T]: ...
@overload
def array(
    element: Callable[..., T],
    versions: str = ...,
    *,
    nullable: str,
    default: Literal["empty"] | None = ...,
    tag: int | None = ...,
    tagged: str | None = ...,
) -> list[T] | None: ...
def array(
    element: Callable[..., T],
    versions: str = "0+",
    *,
    nullable: str = NEVER,
    default: Literal["empty"] | None = "empty",
    tag: int | None = None,
    tagged: str | None = None,
) -> list[T] | None:
    """A list of structs (their class) or of primitives (their specifier: `array(int32)`)."""
    held = element.__name__.rstrip("_") if not isinstance(element, StructType) else element
    made = _field(
        "array", versions, default, nullable=nullable, tag=tag, tagged=tagged, element=held
    )
    return cast(list[T], made)


@overload
def nested(element: type[T], versions: str = ...) -> T: ...
@overload
def nested(
    element: type[T], versions: str = ..., *, nullable: str = ..., tag: int | None = ...
) -> T | None: ...
def nested(
    element: type[T],
    versions: str = "0+",
    *,
    nullable: str = NEVER,
    tag: int | None = None,
) -> T | None:
    """One struct within another; if it may be null or is tagged, its default is `None`."""
    layout = cast(StructType, element)
    default = None if nullable != NEVER or tag is not None else layout
    made = _field("struct", versions, default, nullable=nullable, tag=tag, element=layout)
    return cast(T, made)


class Struct(metaclass=StructType):
    """A message or a part of one: mutable, compared by value."""

    fields: ClassVar[tuple[Field, ...]]

    if not TYPE_CHECKING:

        def __init__(self, **values: object) -> None:
            # The constructor is compiled when the first object of a class is made.
            made = type(self)
            made.__init__ = _compile_constructor(made)
            made.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        if not self.fields:
            return True
        values = _values_of(type(self))
        return bool(values(self) == values(other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        # Bytes may be long or secret, so only their number is shown.
        shown = []
        for field in self.fields:
            value = getattr(self, field.name)
            if field.kind in ("bytes", "records") and value:
                shown.append(f"{field.name}=<{len(value)} bytes>")
            elif value != _default_of(field):
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A struct that stands alone on the wire, in versions of its own."""

    versions: ClassVar[VersionRange]
    flexible_versions: ClassVar[VersionRange]
    max_elements: ClassVar[int] = 2**31 - 1
    """How many elements all arrays of a message, and its unknown tags, may have together."""

    _decoders: ClassVar[dict[int, Decoder]]
    _encoders: ClassVar[dict[int, Encoder]]
    # Compiled when first used: a process needs few of all classes.
    _stepwise_decoders: ClassVar[dict[tuple[object, int], StepwiseDecoder]] = {}
    _stepwise_encoders: ClassVar[dict[tuple[object, int], StepwiseEncoder]] = {}

    @classmethod
    def decode(
        cls, buffer: Buffer, version: int, position: int = 0, *, allow_trailing: bool = False
    ) -> Self:
        """Decodes the message that fills `buffer` from `position` to its end.

        Raises `MalformedMessage`, and nothing else, if the bytes are not such a message.
        """
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        end = len(buffer)
        try:
            message, position = decoder(buffer, position, end)
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise cls._malformed(version, error) from error
        if position != end and not allow_trailing:
            raise MalformedMessage(f"{cls.__name__} v{version}: {end - position} bytes too many")
        return cast(Self, message)

    @classmethod
    def decode_stepwise(
        cls, buffer: Buffer, version: int, position: int = 0
    ) -> Generator[None, None, Self]:
        """Decodes in steps of one array element; more bytes may follow the message."""
        decoder = cls._stepwise_decoders.get((cls, version))
        if decoder is None:
            cls._check(version)
            decoder = cls._stepwise_decoders[cls, version] = compile_stepwise_decoder(
                cls, version, flexible=cls.is_flexible(version), max_elements=cls.max_elements
            )
        try:
            message, _ = yield from decoder(buffer, position, len(buffer))
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise cls._malformed(version, error) from error
        return cast(Self, message)

    @classmethod
    def _malformed(cls, version: int, error: Exception) -> MalformedMessage:
        if isinstance(error, UnicodeDecodeError):
            reason = "not UTF-8 text"
        elif isinstance(error, MalformedMessage):
            reason = str(error)
        else:
            reason = "it ends too early"
        return MalformedMessage(f"{cls.__name__} v{version}: {reason}")

    def encode(self, version: int, first: list[bytes] | None = None) -> list[Part]:
        """Returns the message as parts to write one after the other, with `first` in front.

        Raises `ValueError` if a value does not fit its field.
        """
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        try:
            return encoder(self, [] if first is None else first)
        except (struct.error, AttributeError, TypeError) as error:
            name = type(self).__name__
            raise ValueError(f"{name} v{version} cannot be encoded: {error}") from error

    def encode_stepwise(self, version: int) -> Generator[None, None, list[Part]]:
        """Encodes in steps of one array element."""
        made = type(self)
        encoder = self._stepwise_encoders.get((made, version))
        if encoder is None:
            made._check(version)
            encoder = self._stepwise_encoders[made, version] = compile_stepwise_encoder(
                made, version, flexible=made.is_flexible(version)
            )
        try:
            return (yield from encoder(self, []))
        except (struct.error, AttributeError, TypeError) as error:
            raise ValueError(f"{made.__name__} v{version} cannot be encoded: {error}") from error

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version in cls.flexible_versions

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        cls._check(version)
        decoder = compile_decoder(
            cls, version, flexible=cls.is_flexible(version), max_elements=cls.max_elements
        )
        cls._decoders[version] = decoder
        return decoder

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        cls._check(version)
        encoder = compile_encoder(cls, version, flexible=cls.is_flexible(version))
        cls._encoders[version] = encoder
        return encoder

    @classmethod
    def _check(cls, version: int) -> None:
        if version not in cls.versions:
            raise MalformedMessage(f"{cls.__name__} has versions {cls.versions}, not {version}")


class Request(Message):
    api_key: ClassVar[int]

    # A request of a hundred megabytes could have thirty million empty topics and block a broker for
    # ten seconds. No client needs so many elements in a request; this many take some 40 ms.
    max_elements = 50_000


class Response(Message):
    api_key: ClassVar[int]


@cache
def _values_of(made: type[Struct]) -> Callable[[Struct], object]:
    """Returns what reads all fields of an object of this class, for comparisons."""
    return attrgetter(*(field.name for field in made.fields))


def _default_of(field: Field) -> object:
    if not field.has_mutable_default:
        return field.default
    return [] if field.kind == "array" else cast(type[Struct], field.element)()


def _compile_constructor(made: type[Struct]) -> Callable[..., None]:
    """Returns an `__init__` that takes every field by keyword, without a loop."""
    absent = object()
    namespace: dict[str, object] = {"absent": absent}
    parameters, lines = [], []
    for field in made.fields:
        name = field.name
        if not field.has_mutable_default:
            parameters.append(f"{name}={field.default!r}")
            lines.append(f" self.{name} = {name}")
            continue
        parameters.append(f"{name}=absent")
        factory = "[]" if field.kind == "array" else f"new_{name}()"
        namespace[f"new_{name}"] = field.element
        lines.append(f" self.{name} = {factory} if {name} is absent else {name}")
    star = "*, " if parameters else ""
    source = f"def __init__(self, {star}{', '.join(parameters)}):\n" + "\n".join(lines or [" pass"])
    exec(compile(source, f"<construct {made.__name__}>", "exec"), namespace)  # noqa: S102
    return cast(Callable[..., None], namespace["__init__"])
