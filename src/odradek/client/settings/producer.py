"""The settings of a producer, with Kafka's names and defaults."""

# ruff: noqa: RUF009 - a declaration is a call that makes a dataclass field
from collections.abc import Callable
from dataclasses import dataclass

from odradek.client.errors import SettingsError
from odradek.client.producer.partitioners import PartitionFunction
from odradek.client.serialization import Serializer, serializer_named
from odradek.client.settings.declaration import boolean, checked, choice, integer, optional_text
from odradek.client.settings.shared import ClientSettings
from odradek.protocol.compression import Codec

_PARTITIONERS = {
    "default": "default",
    "round_robin": "round_robin",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "default",
}
_UNIFORM = "org.apache.kafka.clients.producer.UniformStickyPartitioner"


def _check_partitioner(value: object) -> object:
    if callable(value):
        return value
    if value == _UNIFORM:
        raise SettingsError("is no class here: set partitioner.ignore.keys=true in its place")
    if not isinstance(value, str) or value not in _PARTITIONERS:
        raise SettingsError("must be default, round_robin, or a function")
    return _PARTITIONERS[value]


def check_callable(value: object) -> object:
    if isinstance(value, str):
        return serializer_named(value)
    if value is not None and not callable(value):
        raise SettingsError("must be a function from a value to bytes, or the name of one")
    return value


def _check_gzip_level(value: object) -> object:
    if not isinstance(value, int) or not (value == -1 or 1 <= value <= 9):
        raise SettingsError("must be 1 to 9, or -1 for the usual one")
    return value


def _read_level(value: str) -> object:
    try:
        return int(value)
    except ValueError:
        raise SettingsError("must be a whole number") from None


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(ClientSettings):
    key_serializer: Serializer | str | None = checked(
        None,
        "Turns a key into bytes: a function, or string, integer, long, double, json, bytes.",
        check_callable,
    )
    value_serializer: Serializer | str | None = checked(
        None,
        "Turns a value into bytes: a function, or string, integer, long, double, json, bytes.",
        check_callable,
    )
    acks: str | int = choice(
        "all",
        "Who must have a record before it counts: all in sync, 1 the leader, 0 nobody.",
        ("all", "-1", "0", "1"),
    )
    batch_size: int = integer(
        16_384, "Records for one partition are sent together up to this many bytes."
    )
    linger_ms: int = integer(5, "How long a batch that is not full waits for more records.")
    compression_type: str = choice(
        "none", "How batches are compressed.", ("none", "gzip", "snappy", "lz4", "zstd")
    )
    compression_gzip_level: int = checked(
        -1, "1 (fast) to 9 (small); -1 is the usual one.", _check_gzip_level, _read_level
    )
    compression_lz4_level: int = integer(9, "1 (fast) to 17 (small).", low=1, high=17)
    compression_zstd_level: int = integer(3, "-131072 (fast) to 22 (small).", low=-131_072, high=22)
    max_request_size: int = integer(
        1_048_576, "The most bytes in one request; a record must fit in it, uncompressed.", low=1
    )
    buffer_memory: int = integer(
        33_554_432,
        "The most bytes of records that wait to be acknowledged; then send() waits.",
        low=1,
    )
    max_block_ms: int = integer(
        60_000, "How long send() waits for room in the buffer or for a topic's metadata."
    )
    delivery_timeout_ms: int = integer(
        120_000, "A record that is not acknowledged after this long has failed.", low=1
    )
    retries: int = integer(
        2_147_483_647, "How often a failed batch is sent again, within delivery.timeout.ms."
    )
    enable_idempotence: bool = boolean(True, "Retries write no record twice, and the order holds.")
    max_in_flight_requests_per_connection: int = integer(
        5, "How many requests may wait for an answer on one connection.", low=1
    )
    partitioner_class: str | PartitionFunction = checked(
        "default",
        "Where records go: default (by key, else sticky), round_robin, or a function.",
        _check_partitioner,
    )
    partitioner_ignore_keys: bool = boolean(False, "Choose the partition as if there were no key.")
    metadata_max_idle_ms: int = integer(
        300_000, "Forget a topic that nothing was sent to for this long.", low=5_000
    )
    transactional_id: str | None = optional_text(
        "Names the producer across restarts: its transactions, and whom it fences."
    )
    transaction_timeout_ms: int = integer(60_000, "How long a transaction may stay open.", low=1)

    def _check_together(self) -> None:
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
        if not self.enable_idempotence:
            return
        if self.required_acks != -1:
            raise SettingsError(
                f"acks={self.acks}: idempotence needs acks=all; set enable.idempotence=false"
            )
        if self.max_in_flight_requests_per_connection > 5:
            raise SettingsError(
                "max.in.flight.requests.per.connection="
                f"{self.max_in_flight_requests_per_connection}: idempotence allows at most 5;"
                " set enable.idempotence=false"
            )
        if self.retries == 0:
            raise SettingsError(
                "retries=0: idempotence needs retries; set enable.idempotence=false"
            )

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


OnDelivery = Callable[[object, BaseException | None], None]
