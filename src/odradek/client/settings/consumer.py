"""The settings of a consumer, with Kafka's names and, but for one, Kafka's defaults."""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from odradek.client.errors import SettingsError
from odradek.client.group.assignors import Assignor, assignor_named, known_names
from odradek.client.named_classes import is_named_class, load, load_interceptors, made_of
from odradek.client.serialization import Deserializer, checked_deserializer, deserializer_named
from odradek.client.settings.shared import ClientSettings
from odradek.config.kinds import boolean, custom, integer, string
from odradek.config.program_settings import option
from odradek.config.setting import Kind
from odradek.config.spelling import did_you_mean, nearest
from odradek.config.values import InvalidValue, parse_iso_duration_ms, parse_list

_MAX_BATCH_BYTES = 256 * 1024 * 1024

_ENDS_OF_LOG = ("earliest", "latest", "none")
# Words of other clients and of tools.
_OTHER_ENDS = {
    **dict.fromkeys(
        ("first", "beginning", "smallest", "oldest", "start", "from-beginning"), "earliest"
    ),
    **dict.fromkeys(("last", "end", "largest", "newest", "now", "new"), "latest"),
    **dict.fromkeys(("error", "disable", "fail"), "none"),
}
BY_DURATION = "by_duration:"
"""How a value of `auto.offset.reset` begins that names a duration instead of an end of the log."""


def _check_offset_reset(value: object) -> str:
    hint = ""
    if isinstance(value, str):
        if value in _ENDS_OF_LOG:
            return value
        if value.startswith(BY_DURATION):
            if _is_past(value.removeprefix(BY_DURATION)):
                return value
        else:
            near = nearest(value, (*_ENDS_OF_LOG, *_OTHER_ENDS))
            hint = f"; did you mean {_OTHER_ENDS.get(near, near)}?" if near else ""
    raise SettingsError(f"must be earliest, latest, none or by_duration:PnDTnHnMnS{hint}")


def _is_past(duration: str) -> bool:
    """Returns whether a text is a duration that is not negative, as Kafka demands here."""
    try:
        return parse_iso_duration_ms(duration) >= 0
    except InvalidValue:
        return False


def _check_assignors(value: object) -> tuple[Assignor, ...]:
    """A tuple of assignors, from their names or from objects, in the order of preference."""
    given: list[Any] = [value]
    if isinstance(value, str):
        given = list(parse_list(value))
    elif isinstance(value, Iterable):
        given = list(value)
    found: list[Assignor] = []
    for item in given:
        if isinstance(item, str) and is_named_class(item):
            item = load(item)  # noqa: PLW2901 - what the name means
        if isinstance(item, type):
            item = made_of(item)  # noqa: PLW2901 - an assignor of that class
        if isinstance(item, str):
            try:
                found.append(assignor_named(item))
            except KeyError:
                raise SettingsError(
                    f"there is no assignor {item!r}; known are"
                    f" {', '.join(known_names())}, those given to register(), and classes as"
                    f" module:Class{did_you_mean(item, known_names())}"
                ) from None
        elif isinstance(getattr(item, "name", None), str) and callable(
            getattr(item, "assign", None)
        ):
            found.append(item)
        else:
            raise SettingsError(
                "must be names of assignors, classes as module:Class, or objects with a name and"
                " assign()"
            )
    if not found or len({assignor.name for assignor in found}) < len(found):
        raise SettingsError("must name at least one assignor, and none twice")
    return tuple(found)


# What takes the place of settings of the classic protocol.
_IN_NEW_PROTOCOL = {
    "heartbeat.interval.ms": "the broker decides: group.consumer.heartbeat.interval.ms",
    "partition.assignment.strategy": "set group.remote.assignor",
    "session.timeout.ms": "the broker decides: group.consumer.session.timeout.ms",
}


def _check_deserializer(value: object) -> Deserializer | None:
    return deserializer_named(value) if isinstance(value, str) else checked_deserializer(value)


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """The settings of a consumer; docs/reference/client-settings.md describes each."""

    key_deserializer: Deserializer | str | None = option(
        custom(
            "key.deserializer",
            None,
            "Turns bytes into a key: a function, a class as module:Class, or string, integer,"
            " long, short, float, double, json, bytes.",
            accept=_check_deserializer,
            expected="a function, or the name of a deserializer",
            kind=Kind.CLASS,
        )
    )
    value_deserializer: Deserializer | str | None = option(
        custom(
            "value.deserializer",
            None,
            "Turns bytes into a value: a function, a class as module:Class, or string, integer,"
            " long, short, float, double, json, bytes.",
            accept=_check_deserializer,
            expected="a function, or the name of a deserializer",
            kind=Kind.CLASS,
        )
    )
    enable_metrics_push: bool = option(
        boolean(
            "enable.metrics.push",
            True,
            "Push metrics of this client to a broker that asks for them (KIP-714).",
        )
    )
    interceptor_classes: str | tuple[Any, ...] | list[Any] = option(
        custom(
            "interceptor.classes",
            (),
            "Classes with on_consume and on_commit, as module:Class, several with commas.",
            accept=load_interceptors,
            expected="a list of module:Class",
            kind=Kind.LIST,
        )
    )
    fetch_min_bytes: int = option(
        integer(
            "fetch.min.bytes",
            1,
            "A broker answers a fetch once it has this many bytes, or fetch.max.wait.ms passed.",
            at_least=0,
        )
    )
    fetch_max_wait_ms: int = option(
        integer(
            "fetch.max.wait.ms", 500, "How long a broker waits for fetch.min.bytes.", at_least=0
        )
    )
    fetch_max_bytes: int = option(
        integer(
            "fetch.max.bytes",
            52_428_800,
            "The most bytes in one answer; a single larger batch still comes whole.",
            at_least=0,
        )
    )
    max_partition_fetch_bytes: int = option(
        integer(
            "max.partition.fetch.bytes",
            1_048_576,
            "The most bytes of one partition in an answer; a larger batch still comes whole.",
            at_least=0,
        )
    )
    max_poll_records: int = option(
        integer("max.poll.records", 500, "The most records poll() returns at once.", at_least=1)
    )
    auto_offset_reset: str = option(
        custom(
            "auto.offset.reset",
            "latest",
            "Where to start without a valid position: earliest, latest, none (raise), or"
            " by_duration:PT1H (that long ago).",
            accept=_check_offset_reset,
            expected="earliest, latest, none or by_duration:PnDTnHnMnS",
        )
    )
    isolation_level: Literal["read_uncommitted", "read_committed"] = option(
        string(
            "isolation.level",
            "read_uncommitted",
            "read_committed hides the records of open and aborted transactions.",
            choices=("read_uncommitted", "read_committed"),
        )
    )
    check_crcs: bool = option(
        boolean("check.crcs", True, "Check the checksum of what was fetched.")
    )
    odradek_max_batch_bytes: int = option(
        integer(
            "odradek.max.batch.bytes",
            _MAX_BATCH_BYTES,
            "How many bytes a compressed batch may become. A poll that comes to a larger one fails:"
            " a few kilobytes can be compressed zeros that fill the memory.",
            at_least=1_000_000,
            at_most=_MAX_BATCH_BYTES,
        )
    )
    client_rack: str = option(
        string("client.rack", "", "Where this client runs: brokers may name a closer replica.")
    )
    allow_auto_create_topics: bool = option(
        boolean(
            "allow.auto.create.topics",
            False,
            "Reading from a topic may create it, if the broker allows that too. Kafka's default is"
            " true, which makes a topic of each misspelt name.",
        )
    )
    default_api_timeout_ms: int = option(
        integer(
            "default.api.timeout.ms",
            60_000,
            "How long a call such as end_offsets() may take, its retries included.",
            at_least=1,
        )
    )
    group_id: str | None = option(
        string(
            "group.id",
            None,
            "The group whose members share the work and the offsets.",
            may_be_empty=False,
        )
    )
    group_instance_id: str | None = option(
        string(
            "group.instance.id",
            None,
            "A name that stays across restarts: a restart within session.timeout.ms moves nothing.",
            may_be_empty=False,
        )
    )
    group_protocol: Literal["classic", "consumer"] = option(
        string(
            "group.protocol",
            "classic",
            "classic: the members' leader assigns; consumer: the broker does (KIP-848).",
            choices=("classic", "consumer"),
            folds_case=True,
        )
    )
    group_remote_assignor: str | None = option(
        string(
            "group.remote.assignor",
            None,
            "With group.protocol=consumer, the broker's assignor: uniform or range.",
            may_be_empty=False,
        )
    )
    partition_assignment_strategy: tuple[Assignor, ...] | Iterable[Assignor | str] | str = option(
        custom(
            "partition.assignment.strategy",
            "range,cooperative-sticky",
            "How partitions are shared: range, roundrobin, sticky, cooperative-sticky, or your own"
            " as an object or module:Class.",
            accept=_check_assignors,
            expected="names of assignors",
            kind=Kind.LIST,
        )
    )
    session_timeout_ms: int = option(
        integer(
            "session.timeout.ms",
            45_000,
            "A member that is silent for this long is taken out of the group.",
            at_least=1,
        )
    )
    heartbeat_interval_ms: int = option(
        integer(
            "heartbeat.interval.ms",
            3_000,
            "How often a member says that it is alive; below session.timeout.ms.",
            at_least=1,
        )
    )
    max_poll_interval_ms: int = option(
        integer(
            "max.poll.interval.ms",
            300_000,
            "A member that does not poll() for this long leaves the group.",
            at_least=1,
        )
    )
    enable_auto_commit: bool = option(
        boolean(
            "enable.auto.commit",
            True,
            "With a group.id, poll() commits what earlier polls returned, now and then.",
        )
    )
    auto_commit_interval_ms: int = option(
        integer("auto.commit.interval.ms", 5_000, "How often poll() commits by itself.", at_least=0)
    )
    exclude_internal_topics: bool = option(
        boolean(
            "exclude.internal.topics",
            True,
            "A pattern does not match the topics that brokers keep for themselves.",
        )
    )

    @property
    def assignors(self) -> tuple[Assignor, ...]:
        checked_ones = self.partition_assignment_strategy
        assert isinstance(checked_ones, tuple)
        return checked_ones

    def _check_together(self) -> None:
        super()._check_together()
        self._check_protocol()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise SettingsError(
                f"heartbeat.interval.ms={self.heartbeat_interval_ms}: must be below"
                f" session.timeout.ms={self.session_timeout_ms}"
            )

    def _check_protocol(self) -> None:
        """Refuses what has no effect with the protocol of the group, as Kafka's clients do."""
        if self.group_protocol == "classic":
            if self.group_remote_assignor is not None:
                raise SettingsError("group.remote.assignor needs group.protocol=consumer")
            return
        given = {
            "heartbeat.interval.ms": self.heartbeat_interval_ms,
            "partition.assignment.strategy": ",".join(assignor.name for assignor in self.assignors),
            "session.timeout.ms": self.session_timeout_ms,
        }
        declared = self.declared()
        for name, value in given.items():
            if value != declared[name].default:
                raise SettingsError(
                    f"{name} has no effect with group.protocol=consumer; {_IN_NEW_PROTOCOL[name]}"
                )
