"""What to do after brokers have refused to create or change a topic.

Brokers say what is wrong, in words that fit every client. A tool knows what the user typed, and
adds the flag to type instead.
"""

import re
from collections.abc import Iterable, Mapping

from odradek.client.admin.brokers import BrokerCalls
from odradek.config.spelling import did_you_mean
from odradek.config.values import InvalidValue, parse_duration_ms, parse_size_bytes
from odradek.protocol.errors import ErrorCode, KafkaError

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


async def after_refused_topic(
    admin: BrokerCalls, error: KafkaError, name: str, configs: Mapping[str, str | None]
) -> str:
    """Returns the message about a topic that was not created, with the next step."""
    said = error.message.rstrip(".")
    if error.code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{said}{_fitting_name(name)}"
    if error.code == ErrorCode.INVALID_REPLICATION_FACTOR:
        brokers = len((await admin.describe_cluster()).brokers)
        more = "" if brokers > 1 else "; `odradek local grow` makes three brokers of one"
        return f"{said}; give --replication-factor {brokers} or less{more}"
    if error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT:
        ids = sorted(broker.id for broker in (await admin.describe_cluster()).brokers)
        return f"{said}; the cluster has {', '.join(map(str, ids))}"
    if error.code == ErrorCode.INVALID_CONFIG:
        return error.message + (meant_value(error, configs) or _meant_setting(error, configs))
    return error.message


def after_refused_partitions(error: KafkaError) -> str:
    """Returns the message about partitions that were not added, with the next step."""
    if error.code == ErrorCode.INVALID_PARTITIONS and "not be an increase" in error.message:
        return (
            f"{error.message.rstrip('.')}; partitions are never removed, so give a greater number,"
            " or copy the records to a new topic (odradek recipe repartition shows how)"
        )
    return error.message


def _fitting_name(name: str) -> str:
    """Returns the end of the message about a name that no topic can have."""
    if "," in name:
        return "; create topics one by one"
    fitting = _UNFIT.sub("-", name).strip("-")
    return f"; for instance {fitting}" if fitting.strip(".") and fitting != name else ""


def meant_value(error: KafkaError, configs: Mapping[str, str | None]) -> str:
    """Returns the number to write for a value with a unit, which settings of Kafka do not have."""
    for name, value in configs.items():
        if not value or name not in error.message or value.lstrip("-").isdecimal():
            continue
        try:
            if name.endswith(".ms"):
                number, unit = parse_duration_ms(value), "milliseconds"
            elif name.endswith(".bytes"):
                number, unit = parse_size_bytes(value), "bytes"
            else:
                continue
        except InvalidValue:
            continue
        return f"; it counts {unit}: {name}={number}"
    return ""


def _meant_setting(error: KafkaError, configs: Iterable[str]) -> str:
    """Returns `; did you mean X?` if brokers refuse a setting that does not exist. They look for a
    letter that is wrong, and no further."""
    from odradek.config.topic_settings import TopicSettings

    for name in configs:
        if name not in TopicSettings.declared and "did you mean" not in error.message:
            return did_you_mean(name, TopicSettings.declared)
    return ""
