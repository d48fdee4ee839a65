"""Limits what a group member may send by the size of its record: `max.message.bytes` of the
internal topic.

The coordinator keeps in memory what a member says about itself until its session ends, and any
client may join a group. So the handlers of JoinGroup, SyncGroup and ConsumerGroupHeartbeat refuse
what does not fit into a record of the internal topic, before the coordinator sees it.

The limit is for what a client sends, not for every write of a coordinator. A coordinator that ends
a session, deletes offsets or assigns the partitions of a large group has to continue even if its
records together are larger than the limit, or if the limit was lowered since.
"""

from collections.abc import Iterable
from typing import Final

from odradek.broker.services import Services
from odradek.cluster.internal_settings import GROUPS
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode

# Nearly all members send less, so the limit need not be looked up for them.
_ALWAYS_FITS_BYTES: Final = 16 * 1024
_MAX_BYTES_OF_A_CHARACTER: Final = 4
# The length of a text that is longer than 127 bytes and shorter than 16 KiB, as a varint.
_LENGTH_BYTES: Final = 2


def max_group_record_bytes(services: Services) -> int:
    overrides = services.images.image.topic_overrides(GROUPS)
    return services.settings.topic(overrides).max_message_bytes


def check_group_record(services: Services, size: int, code: ErrorCode) -> None:
    """Raises `ApiError` with this code if a record about a group may not have this size."""
    if size <= _ALWAYS_FITS_BYTES:
        return
    max_bytes = max_group_record_bytes(services)
    if size > max_bytes:
        raise ApiError(
            code,
            f"What is to be kept has {size} bytes; max.message.bytes of {GROUPS} is {max_bytes}.",
        )


def size_of_texts(texts: Iterable[str | None]) -> int:
    """Returns the bytes that these texts take in a record; for small ones an upper bound."""
    present = [text for text in texts if text is not None]
    bound = sum(map(len, present)) * _MAX_BYTES_OF_A_CHARACTER + len(present) * _LENGTH_BYTES
    if bound <= _ALWAYS_FITS_BYTES:
        return bound
    return sum(len(text.encode()) + _LENGTH_BYTES for text in present)
