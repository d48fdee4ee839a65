"""The settings of a consumer, with Kafka's names and defaults."""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from odradek.client.errors import SettingsError
from odradek.client.group.assignors import Assignor, assignor_named, known_names
from odradek.client.serialization import Deserializer, deserializer_named
from odradek.client.settings.declaration import (
    boolean,
    checked,
    choice,
    integer,
    optional_text,
    text,
)
from odradek.client.settings.shared import ClientSettings

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE
)


def duration_ms(value: str) -> int | None:
    """An ISO 8601 duration such as PT1H30M, or None if it is not one."""
    found = _DURATION.fullmatch(value)
    if not found or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)


def _check_offset_reset(value: object) -> object:
    if isinstance(value, str):
        if value in {"earliest", "latest", "none"}:
            return value
        if value.startswith("by_duration:") and duration_ms(value[12:]) is not None:
            return value
    raise SettingsError("must be earliest, latest, none or by_duration:PnDTnHnMnS")


def _check_assignors(value: object) -> object:
    """A tuple of assignors, from their names or from objects, in the order of preference."""
    given: list[Any] = [value]
    if isinstance(value, str):
        given = value.split(",")
    elif isinstance(value, Iterable):
        given = list(value)
    found: list[Assignor] = []
    for one in given:
        if isinstance(one, str):
            try:
                found.append(assignor_named(one.strip()))
            except KeyError:
                raise SettingsError(
                    f"there is no assignor {one.strip()!r}; known are"
                    f" {', '.join(known_names())}, and those given to register()"
                ) from None
        elif isinstance(getattr(one, "name", None), str) and callable(getattr(one, "assign", None)):
            found.append(one)
        else:
            raise SettingsError("must be names of assignors, or objects with a name and assign()")
    if not found or len({one.name for one in found}) < len(found):
        raise SettingsError("must name at least one assignor, and none twice")
    return tuple(found)


def _check_deserializer(value: object) -> object:
    if isinstance(value, str):
        return deserializer_named(value)
    if value is not None and not callable(value):
        raise SettingsError("must be a function from bytes to a value, or the name of one")
    return value


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    key_deserializer: Deserializer | str | None = checked(
        None,
        "Turns bytes into a key: a function, or string, integer, long, double, json, bytes.",
        _check_deserializer,
    )
    value_deserializer: Deserializer | str | None = checked(
        None,
        "Turns bytes into a value: a function, or string, integer, long, double, json, bytes.",
        _check_deserializer,
    )
    fetch_min_bytes: int = integer(
        1, "A broker answers a fetch once it has this many bytes, or fetch.max.wait.ms passed."
    )
    fetch_max_wait_ms: int = integer(500, "How long a broker waits for fetch.min.bytes.")
    fetch_max_bytes: int = integer(
        52_428_800, "The most bytes in one answer; a single larger batch still comes whole."
    )
    max_partition_fetch_bytes: int = integer(1_048_576, "The same for one partition of the answer.")
    max_poll_records: int = integer(500, "The most records poll() returns at once.", low=1)
    auto_offset_reset: str = checked(
        "latest",
        "Where to start without a valid position: earliest, latest, none (raise), or"
        " by_duration:PT1H (that long ago).",
        _check_offset_reset,
    )
    isolation_level: str = choice(
        "read_uncommitted",
        "read_committed hides the records of open and aborted transactions.",
        ("read_uncommitted", "read_committed"),
    )
    check_crcs: bool = boolean(True, "Check the checksum of what was fetched.")
    client_rack: str = text("", "Where this client runs: brokers may name a closer replica.")
    allow_auto_create_topics: bool = boolean(
        True, "Asking for a topic may create it, if the broker allows that too."
    )
    default_api_timeout_ms: int = integer(
        60_000, "How long a call such as end_offsets() may take, its retries included.", low=1
    )
    group_id: str | None = optional_text("The group whose members share the work and the offsets.")
    group_instance_id: str | None = optional_text(
        "A name that stays across restarts: a restart within session.timeout.ms moves nothing."
    )
    group_protocol: str = choice(
        "classic",
        "classic: the members' leader assigns; consumer: the broker does (KIP-848).",
        ("classic", "consumer"),
        fold=True,
    )
    group_remote_assignor: str | None = optional_text(
        "With group.protocol=consumer, the broker's assignor: uniform or range."
    )
    partition_assignment_strategy: tuple[Assignor, ...] | Iterable[Assignor | str] | str = checked(
        "range,cooperative-sticky",
        "How partitions are shared: range, roundrobin, sticky, cooperative-sticky, or your own.",
        _check_assignors,
    )
    session_timeout_ms: int = integer(
        45_000, "A member that is silent for this long is taken out of the group.", low=1
    )
    heartbeat_interval_ms: int = integer(
        3_000, "How often a member says that it is alive; below session.timeout.ms.", low=1
    )
    max_poll_interval_ms: int = integer(
        300_000, "A member that does not poll() for this long leaves the group.", low=1
    )
    enable_auto_commit: bool = boolean(
        True, "With a group.id, poll() commits what earlier polls returned, now and then."
    )
    auto_commit_interval_ms: int = integer(5_000, "How often that is.")
    exclude_internal_topics: bool = boolean(
        True, "A pattern does not match the topics that brokers keep for themselves."
    )

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        checked_ones = self.partition_assignment_strategy
        assert isinstance(checked_ones, tuple)
        return checked_ones

    def _check_together(self) -> None:
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise SettingsError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms}: must be below"
                f" session.timeout.ms={self.session_timeout_ms}"
            )
