"""Settings of schema validation: which topics check what producers send, and with which registry.

The names that begin with `confluent.` are those of Confluent Server, so its topics can be moved
here with their settings.
"""

from typing import Final

from odradek.config.kinds import boolean, integer, password, string
from odradek.config.setting import InvalidSetting, Settings

REJECT: Final = "reject"
DIVERT: Final = "divert"

_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
TOPIC_NAME: Final = f"{_PACKAGE}TopicNameStrategy"
RECORD_NAME: Final = f"{_PACKAGE}RecordNameStrategy"
TOPIC_RECORD_NAME: Final = f"{_PACKAGE}TopicRecordNameStrategy"
_STRATEGIES: Final = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME)

_VALIDATION_DOC: Final = (
    "Whether the broker refuses records whose {side} does not begin with the id of a schema that "
    "is registered under the subject of the {side}. A null {side} is accepted. The broker needs "
    "confluent.schema.registry.url."
)
_STRATEGY_DOC: Final = (
    "How the subject of a {side} is named: by the topic (NAME-{side}), by the record's full name, "
    "or by both (NAME-RECORD)."
)


class SchemaValidationSettings(Settings):
    """The part of a topic's settings."""

    confluent_key_schema_validation = boolean(
        "confluent.key.schema.validation", False, _VALIDATION_DOC.format(side="key")
    )
    confluent_value_schema_validation = boolean(
        "confluent.value.schema.validation", False, _VALIDATION_DOC.format(side="value")
    )
    confluent_key_subject_name_strategy = string(
        "confluent.key.subject.name.strategy",
        TOPIC_NAME,
        _STRATEGY_DOC.format(side="key"),
        choices=_STRATEGIES,
    )
    confluent_value_subject_name_strategy = string(
        "confluent.value.subject.name.strategy",
        TOPIC_NAME,
        _STRATEGY_DOC.format(side="value"),
        choices=_STRATEGIES,
    )
    odradek_schema_validation_content = boolean(
        "odradek.schema.validation.content",
        False,
        "Whether schema validation also decodes each key and value with its schema, in a process "
        "of its own. It needs the extra `schemas` on the brokers.",
    )
    odradek_schema_validation_action = string(
        "odradek.schema.validation.action",
        REJECT,
        "What becomes of a record that schema validation finds wrong. `reject`: the producer gets "
        "an error and nothing of the batch is written. `divert`: the record goes to the "
        "dead-letter topic, with the reason in its headers, and the rest of the batch is written.",
        choices=(REJECT, DIVERT),
    )
    odradek_schema_validation_dead_letter_topic = string(
        "odradek.schema.validation.dead.letter.topic",
        "",
        "The topic for diverted records. It is created if it does not exist. If empty: the name of "
        "the topic with -dead-letters at its end.",
    )

    @property
    def validates_schemas(self) -> bool:
        """Whether batches of producers are checked by `broker.schema_validation`."""
        return self.confluent_key_schema_validation or self.confluent_value_schema_validation


class SchemaRegistrySettings(Settings):
    """The part of a broker's settings."""

    confluent_schema_registry_url = string(
        "confluent.schema.registry.url",
        None,
        "The URL of the schema registry that schema validation of topics asks; several are "
        "separated by commas.",
    )
    confluent_basic_auth_credentials_source = string(
        "confluent.basic.auth.credentials.source",
        "URL",
        "Where the user name and password for the registry are: `URL` (as in "
        "http://USER:PASSWORD@HOST) or `USER_INFO` (in confluent.basic.auth.user.info).",
        choices=("URL", "USER_INFO"),
    )
    confluent_basic_auth_user_info = password(
        "confluent.basic.auth.user.info", "USER:PASSWORD for the schema registry."
    )
    confluent_ssl_truststore_location = string(
        "confluent.ssl.truststore.location",
        None,
        "The file with the authorities that the registry's certificate may come from, for https.",
    )
    confluent_ssl_truststore_password = password(
        "confluent.ssl.truststore.password", "The password of that file."
    )
    confluent_ssl_keystore_location = string(
        "confluent.ssl.keystore.location",
        None,
        "The file with the key and certificate that the broker shows to the registry.",
    )
    confluent_ssl_keystore_password = password(
        "confluent.ssl.keystore.password", "The password of that file."
    )
    confluent_ssl_key_password = password(
        "confluent.ssl.key.password", "The password of the key in that file."
    )
    odradek_schema_registry_timeout_ms = integer(
        "odradek.schema.registry.timeout.ms",
        2_000,
        "How long a produce request waits for the schema registry. Then it is answered with an "
        "error that producers retry.",
        at_least=1,
        at_most=60_000,
    )
    odradek_schema_registry_cache_ms = integer(
        "odradek.schema.registry.cache.ms",
        300_000,
        "For how long the broker believes that an id is registered under a subject without asking "
        "again. While the registry does not answer, older answers still count.",
        at_least=0,
    )


def check_has_registry(topic: SchemaValidationSettings, broker: SchemaRegistrySettings) -> None:
    """Raises `InvalidSetting` if the topic wants schema validation and the broker has no registry
    to ask: a check that is not made must not look as if it were."""
    if topic.validates_schemas and not broker.confluent_schema_registry_url:
        side = "key" if topic.confluent_key_schema_validation else "value"
        raise InvalidSetting(
            f"confluent.{side}.schema.validation",
            "true",
            "the brokers need confluent.schema.registry.url for it, as in http://localhost:8081",
        )
