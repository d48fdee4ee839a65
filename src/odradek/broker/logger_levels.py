"""Levels of a broker's loggers, as settings of the resource type BROKER_LOGGER.

They hold until the broker stops, as in Kafka: nothing is stored. A logger has our name and Kafka's
(`odradek.request`, `kafka.request.logger`). DELETE restores the level at the start, also that of
the root logger, which Kafka refuses.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from odradek.broker.services import Services
from odradek.config.describe import Description, Source
from odradek.config.operation import ConfigOperation
from odradek.config.setting import Kind
from odradek.protocol.api_error import ApiError
from odradek.protocol.errors import ErrorCode
from odradek.telemetry import logs

logger = logging.getLogger(logs.SERVER)


class Change(Protocol):
    """What IncrementalAlterConfigs asks of one setting."""

    name: str
    config_operation: int
    value: str | None


def describe_loggers(
    services: Services, broker: str, names: Iterable[str] | None
) -> list[Description]:
    """Returns all loggers, or those with the given names."""
    _require_this_broker(services, broker)
    requested = None if names is None else set(names)
    return [
        Description(
            name=name,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER,
            is_sensitive=False,
            read_only=False,
            kind=Kind.STRING,
            synonyms=(),
            documentation=_documentation(name),
        )
        for name, level in logs.levels().items()
        if not requested or name in requested
    ]


def _documentation(name: str) -> str:
    ours = logs.KAFKA_NAMES.get(name, name)
    kafkas = f"Kafka's name of {ours}. " if ours != name else ""
    return f"{kafkas}It writes to {logs.FILES.get(ours, logs.SERVER_LOG)}."


def alter_loggers(
    services: Services, broker: str, changes: Sequence[Change], *, validate_only: bool
) -> None:
    """Changes the levels of all named loggers, or of none if one of them is refused."""
    _require_this_broker(services, broker)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "A logger is named twice.")
    levels = [(change.name, _level(change)) for change in changes]
    if validate_only:
        return
    for name, level in levels:
        logs.set_level(name, level)
        # Logged at WARN, as in Kafka: the file explains why it has more or fewer lines from here
        # on.
        logger.warning("the level of %s is %s now", name, logs.levels()[name])


def _level(change: Change) -> str | None:
    """Returns the requested level; None for the level at the start."""
    try:
        operation = ConfigOperation(change.config_operation)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation: {error}.") from error
    try:
        logs.require_logger(change.name)
        if operation is ConfigOperation.DELETE:
            return None
        if operation is not ConfigOperation.SET:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"A level is set or deleted, not {operation.name}."
            )
        if change.value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value for {change.name}.")
        logs.require_level(change.value)
    except ValueError as error:
        text = str(error)
        raise ApiError(ErrorCode.INVALID_CONFIG, f"{text[0].upper()}{text[1:]}.") from error
    return change.value


def _require_this_broker(services: Services, broker: str) -> None:
    if broker != str(services.broker_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Broker {services.broker_id} has loggers of its own; ask broker {broker!r} directly."
            if broker
            else "Loggers are a broker's own: name it by its id.",
        )
