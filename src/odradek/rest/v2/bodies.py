"""Version 2: the bodies of requests about consumer instances."""

from datetime import datetime

import msgspec

Flag = bool | str
Number = int | str


class NewInstance(msgspec.Struct, forbid_unknown_fields=True):
    """A consumer instance to create. Numbers and flags may be written as text."""

    id: str | None = None
    name: str | None = None
    format: str | None = None
    reset: str | None = msgspec.field(default=None, name="auto.offset.reset")
    commit: Flag | None = msgspec.field(default=None, name="auto.commit.enable")
    min_bytes: Number | None = msgspec.field(default=None, name="fetch.min.bytes")
    timeout: Number | None = msgspec.field(default=None, name="consumer.request.timeout.ms")
    isolation: str | None = msgspec.field(default=None, name="isolation.level")


class Subscription(msgspec.Struct, forbid_unknown_fields=True):
    topics: list[str] | None = None
    topic_pattern: str | None = None


class At(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    partition: int


class AtOffset(At, kw_only=True, forbid_unknown_fields=True):
    offset: int
    metadata: str | None = None


class Partitions(msgspec.Struct, forbid_unknown_fields=True):
    partitions: list[At]


class Offsets(msgspec.Struct, forbid_unknown_fields=True):
    offsets: list[AtOffset] | None = None
    partitions: list[At] | None = None


class AtTime(At, kw_only=True, forbid_unknown_fields=True):
    timestamp: datetime
    metadata: str | None = None


class Positions(msgspec.Struct, forbid_unknown_fields=True):
    offsets: list[AtOffset] | None = None
    timestamps: list[AtTime] | None = None
