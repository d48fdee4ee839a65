"""How large the record of a group or of a member may be: `max.message.bytes` of the internal topic.

What a member says about itself is kept in memory until its session is over, and nobody has to log
in to join a group. So the handlers of JoinGroup, SyncGroup and ConsumerGroupHeartbeat refuse what
is larger than a record of the internal topic may be, before the coordinator sees it.

The limit is for what a client sends, not for every write of a coordinator. A coordinator that ends
a session, forgets offsets or assigns the partitions of a large group has to go on even if its
records are larger than the limit together, or the limit was lowered since.
"""

from collections.abc import Iterable
from typing import Final

from odradek.broker.services import Services
from odradek.cluster.internal_settings import GROUPS
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode

# What nearly all members bring; no need to look up what is allowed.
_ALWAYS_FITS_BYTES: Final = 16 * 1024
_MAX_BYTES_OF_A_CHARACTER: Final = 4
# The length of a text that is longer than 127 bytes and shorter than 16 KiB, as a record has it.
_LENGTH_BYTES: Final = 2


def largest_group_record(services: Services) -> int:
    overrides = services.images.image.topic_overrides(GROUPS)
    return services.settings.topic(overrides).max_message_bytes


def check_group_record(services: Services, size: int, code: ErrorCode) -> None:
    """Raises `ApiError` with this code if no record of this size may be written about a group."""
    if size <= _ALWAYS_FITS_BYTES:
        return
    largest = largest_group_record(services)
    if size > largest:
        raise ApiError(
            code,
            f"What is to be kept has {size} bytes; max.message.bytes of {GROUPS} is {largest}.",
        )


def size_of_texts(texts: Iterable[str | None]) -> int:
    """The bytes that these texts take in a record, or no less."""
    present = [text for text in texts if text is not None]
    most = sum(map(len, present)) * _MAX_BYTES_OF_A_CHARACTER + len(present) * _LENGTH_BYTES
    if most <= _ALWAYS_FITS_BYTES:
        return most
    return sum(len(text.encode()) + _LENGTH_BYTES for text in present)
