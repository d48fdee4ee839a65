"""kafka-rest.properties: the settings of the REST proxy, with Confluent's names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, long, string
from odradek.config.program_settings import option
from odradek.services.settings import NO_EFFECT, listeners
from odradek.services.with_registry import WithRegistry

PORT: Final = 8082


@dataclass(frozen=True, kw_only=True)
class RestSettings(WithRegistry):
    """What the REST proxy can be told, beside what every service can."""

    no_effect: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **NO_EFFECT,
        "client.init.timeout.ms": (),
        "client.timeout.ms": (),
        "client.zk.session.timeout.ms": (),
        "confluent.resource.name.authority": ("",),
        "consumer.iterator.backoff.ms": (),
        "consumer.iterator.timeout.ms": (),
        "consumer.threads": (),
        "producer.threads": (),
        "kafka.rest.resource.extension.class": ("",),
        "rate.limit.enable": ("false",),
        "api.v3.produce.rate.limit.enabled": ("false",),
        "api.v3.produce.response.thread.pool.size": (),
        "simpleconsumer.pool.size.max": (),
        "simpleconsumer.pool.timeout.ms": (),
        "use.custom.request.logging": ("true", "false"),
    }
    refused: ClassVar[Mapping[str, str]] = {
        "access.control.allow.origin": "pages of other sites may not call the proxy, for they"
        " could do what their visitor may; put a server of yours between",
        "access.control.allow.methods": "pages of other sites may not call the proxy",
        "authentication.realm": "callers log in to the brokers: set client.security.protocol",
        "authentication.roles": "the brokers' ACLs and roles decide: see odradek acls and roles",
        "confluent.license": "there is none",
        "api.endpoints.allowlist": "it is not supported; ACLs of the brokers say who may do what",
        "api.endpoints.blocklist": "it is not supported; ACLs of the brokers say who may do what",
    }

    listeners: tuple[str, ...] | str = listeners(PORT)
    id: str = option(
        string("id", "", "A name of this proxy; consumer instances that it names begin with it.")
    )
    consumer_request_timeout_ms: int = option(
        integer(
            "consumer.request.timeout.ms",
            1000,
            "How long a consumer instance of version 2 waits for records.",
            at_least=0,
            at_most=600_000,
        )
    )
    consumer_request_max_bytes: int = option(
        long(
            "consumer.request.max.bytes",
            64 * 1024 * 1024,
            "The most bytes of keys and values in one answer.",
            at_least=1,
        )
    )
    consumer_instance_timeout_ms: int = option(
        integer(
            "consumer.instance.timeout.ms",
            300_000,
            "A consumer instance of version 2 that nobody uses for so long is deleted.",
            at_least=100,
        )
    )
    fetch_min_bytes: int = option(
        integer(
            "fetch.min.bytes",
            -1,
            "How many bytes a consumer instance waits for within its time; -1: for any record.",
            at_least=-1,
            at_most=10_000_000,
        )
    )
    odradek_max_consumer_instances: int = option(
        integer(
            "odradek.max.consumer.instances",
            1000,
            "The most consumer instances of all callers; one caller has at most a quarter.",
            at_least=4,
        )
    )
    api_v2_enable: bool = option(boolean("api.v2.enable", True, "Whether version 2 is served."))
    api_v3_enable: bool = option(boolean("api.v3.enable", True, "Whether version 3 is served."))
    api_v3_produce_batch_maximum_entries: int = option(
        integer(
            "api.v3.produce.batch.maximum.entries",
            10,
            "The most records of one request to records:batch.",
            at_least=1,
        )
    )
    api_v3_produce_request_size_limit_max_bytes: int = option(
        long(
            "api.v3.produce.request.size.limit.max.bytes",
            0,
            "The most bytes of one record's JSON in a stream; 0: as odradek.max.body.bytes.",
            at_least=0,
        )
    )

    @property
    def max_record_bytes(self) -> int:
        """The most bytes that one record's JSON may have in a stream."""
        return self.api_v3_produce_request_size_limit_max_bytes or self.odradek_max_body_bytes
