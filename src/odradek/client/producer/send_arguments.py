"""Arguments of `Producer.send` that look wrong are checked here, or refused with what to write.

`send` is called for every record, too often for the decorators of `client.habits`. It calls these
functions only if something looks wrong.
"""

from collections.abc import Callable, Mapping, Sequence

from odradek.client import arguments
from odradek.client.arguments import FIRST_MILLISECONDS
from odradek.client.habits import too_many, unknown_argument
from odradek.client.producer.record_bytes import check_callback, checked_timestamp
from odradek.client.tracked_topics import check_topic
from odradek.protocol.record_parser import MAX_TIMESTAMP


def is_in_milliseconds(timestamp: int) -> bool:
    """Whether it is a time for certain. A smaller one may be in seconds."""
    return timestamp.__class__ is int and FIRST_MILLISECONDS <= timestamp <= MAX_TIMESTAMP


def check_known(
    function: Callable[..., object],
    given: Sequence[object],
    unnamed: Sequence[object],
    others: Mapping[str, object],
) -> None:
    """Raises `TypeError` if there are arguments without a name behind those that are `given`, or
    with a name that the function does not have."""
    if unnamed:
        raise too_many(function, (*given, *unnamed))
    if others:
        raise unknown_argument(function, others)


def checked_time(topic: object, timestamp_ms: object, on_delivery: object) -> int | None:
    """Raises for a topic or a callback that `send` cannot take; returns the record's time, if it is
    given."""
    check_topic(arguments.a_name(topic, "send()"))
    check_callback(on_delivery)
    return None if timestamp_ms is None else checked_timestamp(timestamp_ms)
