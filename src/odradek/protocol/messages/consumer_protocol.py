"""The messages that consumers send each other through JoinGroup and SyncGroup.

To the group coordinator they are opaque bytes. Each begins with its version. A reader that does not
know the version reads it as the newest version that it knows and ignores the bytes that are left
over, so that consumers of different releases can be in one group.
"""

import struct
from typing import Final, TypeVar

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message, Struct, array, bytes_, int32, string
from odradek.protocol.types import Buffer

_VERSION: Final = struct.Struct(">h")

AnyMessage = TypeVar("AnyMessage", bound=Message)


class TopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytes_(nullable="0+", default=None)


def encode_versioned(message: Message, version: int) -> bytes:
    (content,) = message.encode(version, [_VERSION.pack(version)])
    if not isinstance(content, bytes):
        raise TypeError(f"{message!r} has records, which cannot be embedded")
    return content


def decode_versioned(message_class: type[AnyMessage], content: Buffer) -> AnyMessage:
    try:
        version: int = _VERSION.unpack_from(content)[0]
    except struct.error as error:
        raise MalformedMessage(f"{message_class.__name__} ends within its version") from error
    known = min(version, message_class.versions.last)
    return message_class.decode(content, known, _VERSION.size, allow_trailing=True)
