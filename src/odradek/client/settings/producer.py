"""The settings of a producer, with Kafka's names and defaults."""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
from dataclasses import dataclass
from typing import Any, Literal

from odradek.client.errors import SettingsError
from odradek.client.named_classes import is_named_class, load, load_interceptors
from odradek.client.producer.partitioners import PartitionChoice, checked_partitioner
from odradek.client.serialization import Serializer, checked_serializer, serializer_named
from odradek.client.settings.shared import ClientSettings
from odradek.config.kinds import boolean, custom, integer, long, string
from odradek.config.program_settings import option
from odradek.config.setting import Kind
from odradek.config.spelling import did_you_mean
from odradek.protocol.compression import Codec

_PARTITIONERS = {
    "default": "default",
    "round_robin": "round_robin",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
}
# Brokers remember this many batches per producer and partition, to detect duplicates.
MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5

_OTHER_HASH = (
    "is a hash that only librdkafka has: write default, Kafka's own murmur2, or a function if other"
    " programs of librdkafka write the same keys"
)
# What a partitioner of another client is called here.
_INSTEAD = {
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": (
        "is not supported: set partitioner.ignore.keys=true instead"
    ),
    "murmur2_random": "is called default here, and need not be set",
    "murmur2": "is called default here, and need not be set; it spreads records without a key",
    "random": "write default, and set partitioner.ignore.keys=true",
    **dict.fromkeys(("consistent", "consistent_random", "fnv1a", "fnv1a_random"), _OTHER_HASH),
}


def _check_partitioner(value: object) -> PartitionChoice:
    if isinstance(value, str) and value in _INSTEAD:
        raise SettingsError(_INSTEAD[value])
    if isinstance(value, str) and is_named_class(value):
        return checked_partitioner(load(value))
    if not isinstance(value, str):
        return checked_partitioner(value)
    if value not in _PARTITIONERS:
        raise SettingsError(
            "must be default, round_robin, a function, or a class as module:Class"
            f"{did_you_mean(value, _PARTITIONERS)}"
        )
    return _PARTITIONERS[value]


def _check_serializer(value: object) -> Serializer | None:
    return serializer_named(value) if isinstance(value, str) else checked_serializer(value)


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """The settings of a producer; docs/reference/client-settings.md describes each."""

    key_serializer: Serializer | str | None = option(
        custom(
            "key.serializer",
            None,
            "Turns a key into bytes: a function, a class as module:Class, or string, integer, long,"
            " short, float, double, json, bytes.",
            accept=_check_serializer,
            expected="a function, or the name of a serializer",
            kind=Kind.CLASS,
        )
    )
    value_serializer: Serializer | str | None = option(
        custom(
            "value.serializer",
            None,
            "Turns a value into bytes: a function, a class as module:Class, or string, integer,"
            " long, short, float, double, json, bytes.",
            accept=_check_serializer,
            expected="a function, or the name of a serializer",
            kind=Kind.CLASS,
        )
    )
    acks: Literal["all", "-1", "0", "1", -1, 0, 1] = option(
        string(
            "acks",
            "all",
            "Which replicas must have a record before it is acknowledged: all in sync, 1 the"
            " leader, 0 none.",
            choices=("all", "-1", "0", "1"),
        )
    )
    batch_size: int = option(
        integer(
            "batch.size",
            16_384,
            "Records for one partition are sent together up to this many bytes.",
            at_least=0,
        )
    )
    linger_ms: int = option(
        long(
            "linger.ms", 5, "How long a batch that is not full waits for more records.", at_least=0
        )
    )
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = option(
        string(
            "compression.type",
            "none",
            "How batches are compressed.",
            choices=("none", "gzip", "snappy", "lz4", "zstd"),
        )
    )
    compression_gzip_level: int = option(
        integer(
            "compression.gzip.level",
            -1,
            "1 (fast) to 9 (small); -1 is the usual one.",
            at_least=1,
            at_most=9,
            extra_value=-1,
        )
    )
    compression_lz4_level: int = option(
        integer("compression.lz4.level", 9, "1 (fast) to 17 (small).", at_least=1, at_most=17)
    )
    compression_zstd_level: int = option(
        integer(
            "compression.zstd.level",
            3,
            "-131072 (fast) to 22 (small).",
            at_least=-131_072,
            at_most=22,
        )
    )
    max_request_size: int = option(
        integer(
            "max.request.size",
            1_048_576,
            "The most bytes in one request; a record must fit in it, uncompressed.",
            at_least=1,
        )
    )
    buffer_memory: int = option(
        long(
            "buffer.memory",
            33_554_432,
            "The most bytes of records that wait to be acknowledged; then send() waits.",
            at_least=1,
        )
    )
    max_block_ms: int = option(
        long(
            "max.block.ms",
            60_000,
            "How long send() waits for room in the buffer or for a topic's metadata.",
            at_least=0,
        )
    )
    delivery_timeout_ms: int = option(
        integer(
            "delivery.timeout.ms",
            120_000,
            "A record that is not acknowledged after this long has failed.",
            at_least=1,
        )
    )
    retries: int = option(
        integer(
            "retries",
            2_147_483_647,
            "How often a failed batch is sent again, within delivery.timeout.ms.",
            at_least=0,
        )
    )
    enable_idempotence: bool = option(
        boolean("enable.idempotence", True, "Retries write no record twice, and the order holds.")
    )
    max_in_flight_requests_per_connection: int = option(
        integer(
            "max.in.flight.requests.per.connection",
            5,
            "How many requests may wait for an answer on one connection.",
            at_least=1,
        )
    )
    partitioner_class: PartitionChoice = option(
        custom(
            "partitioner.class",
            "default",
            "Where records go: default (by key, else sticky), round_robin, a function, or a class"
            " as module:Class.",
            accept=_check_partitioner,
            expected="default, round_robin, a function, or module:Class",
            kind=Kind.CLASS,
        )
    )
    partitioner_ignore_keys: bool = option(
        boolean("partitioner.ignore.keys", False, "Choose the partition as if there were no key.")
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
            "Classes with on_send and on_acknowledgement, as module:Class, several with commas.",
            accept=load_interceptors,
            expected="a list of module:Class",
            kind=Kind.LIST,
        )
    )
    metadata_max_idle_ms: int = option(
        long(
            "metadata.max.idle.ms",
            300_000,
            "Forget a topic that nothing was sent to for this long.",
            at_least=5_000,
        )
    )
    transactional_id: str | None = option(
        string(
            "transactional.id",
            None,
            "Identifies the producer across restarts: a new one fences the older one.",
            may_be_empty=False,
        )
    )
    transaction_timeout_ms: int = option(
        integer(
            "transaction.timeout.ms", 60_000, "How long a transaction may stay open.", at_least=1
        )
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.transactional_id is not None and not self.enable_idempotence:
            raise SettingsError(
                f"transactional.id={self.transactional_id!r}: transactions need"
                " enable.idempotence=true"
            )
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise SettingsError(
                f"delivery.timeout.ms={self.delivery_timeout_ms}: must be at least linger.ms +"
                f" request.timeout.ms, here {self.linger_ms + self.request_timeout_ms}"
            )
        if self.enable_idempotence:
            self._check_idempotence()

    def _check_idempotence(self) -> None:
        needs, instead = "idempotence", "set enable.idempotence=false"
        if self.transactional_id is not None:
            # Without idempotence there are no transactions.
            needs, instead = "transactions", "leave it out"
        if self.required_acks != -1:
            raise SettingsError(f"acks={self.acks}: with {needs} it must be all; {instead}")
        if self.max_in_flight_requests_per_connection > MAX_IN_FLIGHT_WITH_IDEMPOTENCE:
            raise SettingsError(
                "max.in.flight.requests.per.connection="
                f"{self.max_in_flight_requests_per_connection}: with {needs} at most"
                f" {MAX_IN_FLIGHT_WITH_IDEMPOTENCE}; {instead}"
            )
        if self.retries == 0:
            raise SettingsError(f"retries=0: with {needs} there must be retries; {instead}")

    @property
    def required_acks(self) -> int:
        return -1 if self.acks in {"all", "-1"} else int(self.acks)

    @property
    def codec(self) -> Codec:
        return Codec[self.compression_type.upper()]

    @property
    def compression_level(self) -> int | None:
        level = {
            "gzip": None if self.compression_gzip_level == -1 else self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return level.get(self.compression_type)
