"""The settings of the sink for MongoDB, with the names of MongoDB's own Kafka connector."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from odradek.config.kinds import boolean, integer, names, string
from odradek.config.setting import Importance
from odradek.connect.settings import REQUIRED, PluginSettings, Problems, invalid

ID_STRATEGIES: Final = (
    "BsonOidStrategy", "KafkaMetaDataStrategy", "FullKeyStrategy", "ProvidedInKeyStrategy",
    "ProvidedInValueStrategy", "PartialKeyStrategy", "PartialValueStrategy", "UuidStrategy",
)  # fmt: skip
OF_KEY: Final = frozenset({"FullKeyStrategy", "ProvidedInKeyStrategy", "PartialKeyStrategy"})
WRITE_STRATEGIES: Final = (
    "DefaultWriteModelStrategy", "ReplaceOneDefaultStrategy", "ReplaceOneBusinessKeyStrategy",
    "InsertOneDefaultStrategy", "UpdateOneDefaultStrategy", "UpdateOneTimestampsStrategy",
    "UpdateOneBusinessKeyTimestampStrategy", "DeleteOneDefaultStrategy",
)  # fmt: skip
BUSINESS_KEYS: Final = frozenset(
    {"ReplaceOneBusinessKeyStrategy", "UpdateOneBusinessKeyTimestampStrategy"}
)
_PACKAGE: Final = "com.mongodb.kafka.connect.sink."
_DEFAULTS: Final[Mapping[str, tuple[str, ...]]] = {
    "change.data.capture.handler": (),
    "delete.writemodel.strategy": (
        f"{_PACKAGE}writemodel.strategy.DeleteOneDefaultStrategy",
        "DeleteOneDefaultStrategy",
    ),
    "document.id.strategy.uuid.format": ("string",),
    "errors.deadletterqueue.context.headers.enable": ("true", "false"),
    "field.renamer.mapping": ("[]",),
    "field.renamer.regexp": ("[]",),
    "key.projection.type": ("none",),
    "mongo.errors.tolerance": ("none",),
    "namespace.mapper": (f"{_PACKAGE}namespace.mapping.DefaultNamespaceMapper",),
    "post.processor.chain": (f"{_PACKAGE}processor.DocumentIdAdder",),
    "rate.limiting.timeout": ("0",),
    "rate.limiting.every.n": ("0",),
    "timeseries.timefield": (),
    "value.projection.type": ("none",),
}
"""Settings of MongoDB's connector that this sink does not have, and the values that are accepted
for them. Transforms can change fields instead."""
_OVERRIDE: Final = "topic.override."
_OVERRIDDEN: Final = (".database", ".collection")


class MongoSinkSettings(PluginSettings):
    connection_uri = string(
        "connection.uri",
        "mongodb://localhost:27017",
        "The servers, as mongodb://USER:PASSWORD@HOST:PORT/?replicaSet=NAME, or mongodb+srv://.",
        importance=Importance.HIGH,
    )
    database = string(
        "database", REQUIRED, "The database.", importance=Importance.HIGH, may_be_empty=False
    )
    collection = string("collection", "", "The collection. Empty: the name of the topic.")
    id_strategy = string(
        "document.id.strategy",
        "BsonOidStrategy",
        "How the _id of a document is chosen: " + ", ".join(ID_STRATEGIES) + ".",
    )
    id_overwrites = boolean(
        "document.id.strategy.overwrite.existing", False, "Whether an _id in the value is replaced."
    )
    key_projection_type = string(
        "document.id.strategy.partial.key.projection.type",
        "allowlist",
        "Whether the list of PartialKeyStrategy names the fields to use, or those to leave out.",
        choices=("allowlist", "blocklist"),
        folds_case=True,
    )
    key_projection_list = names(
        "document.id.strategy.partial.key.projection.list",
        (),
        "The fields of the key for PartialKeyStrategy.",
    )
    value_projection_type = string(
        "document.id.strategy.partial.value.projection.type",
        "allowlist",
        "Whether the list of PartialValueStrategy names the fields to use, or those to leave out.",
        choices=("allowlist", "blocklist"),
        folds_case=True,
    )
    value_projection_list = names(
        "document.id.strategy.partial.value.projection.list",
        (),
        "The fields of the value for PartialValueStrategy.",
    )
    write_strategy = string(
        "writemodel.strategy",
        "DefaultWriteModelStrategy",
        "How documents are written: " + ", ".join(WRITE_STRATEGIES) + ".",
    )
    delete_on_null_values = boolean(
        "delete.on.null.values",
        False,
        "Whether a record without a value deletes the document with its key.",
    )
    max_batch_size = integer(
        "max.batch.size", 0, "How many documents are sent in one request. 0: all.", at_least=0
    )
    bulk_write_ordered = boolean(
        "bulk.write.ordered",
        True,
        "Whether documents are written one after the other, in their order.",
    )
    server_selection_timeout_ms = integer(
        "odradek.server.selection.timeout.ms", 30_000, "How long to wait for a server.", at_least=1
    )

    overrides: Mapping[str, str] = MappingProxyType({})
    """The settings `topic.override.TOPIC.database` and `.collection`, by the name after
    `topic.override.`."""
    refused: ClassVar[Mapping[str, tuple[str, ...]]] = _DEFAULTS

    @property
    def ids(self) -> str:
        """The strategy for ids: the last part of the class name in the setting."""
        return self.id_strategy.rpartition(".")[2]

    @property
    def writes(self) -> str:
        """The strategy for writing: the last part of the class name in the setting."""
        return self.write_strategy.rpartition(".")[2]

    @classmethod
    def takes(cls, name: str) -> bool:
        return name.startswith(_OVERRIDE) or name in cls.refused

    @classmethod
    def _parsed(cls, properties: Mapping[str, str | None]) -> tuple[dict[str, object], Problems]:
        values, problems = super()._parsed(properties)
        overrides: dict[str, str] = {}
        for name, text in properties.items():
            if name.startswith(_OVERRIDE) and text:
                if not name.endswith(_OVERRIDDEN):
                    reason = "only the database and the collection of a topic can be overridden"
                    problems[name] = [invalid(name, text, reason)]
                overrides[name.removeprefix(_OVERRIDE)] = text
            elif name in cls.refused and text and text not in cls.refused[name]:
                reason = "it has no effect here; change records with transforms"
                problems[name] = [invalid(name, text, reason)]
        values["overrides"] = overrides
        return values, problems

    def wrong_together(self) -> Problems:
        problems: Problems = {}
        if not self.connection_uri.startswith(("mongodb://", "mongodb+srv://")):
            reason = "it must begin with mongodb:// or mongodb+srv://"
            problems["connection.uri"] = [invalid("connection.uri", "[hidden]", reason)]
        for name, found, known in (
            ("document.id.strategy", self.ids, ID_STRATEGIES),
            ("writemodel.strategy", self.writes, WRITE_STRATEGIES),
        ):
            if found not in known:
                problems[name] = [invalid(name, found, f"it must be one of {', '.join(known)}")]
        problems.update(self._wrong_ids())
        return problems

    def _wrong_ids(self) -> Problems:
        deletes = self.delete_on_null_values or self.writes == "DeleteOneDefaultStrategy"
        if deletes and self.ids not in OF_KEY:
            name = "document.id.strategy"
            reason = f"to delete documents it must be one of {', '.join(sorted(OF_KEY))}"
            return {name: [invalid(name, self.ids, reason)]}
        if self.writes in BUSINESS_KEYS and self.ids not in {
            "PartialKeyStrategy",
            "PartialValueStrategy",
        }:
            name = "document.id.strategy"
            reason = f"{self.writes} needs PartialKeyStrategy or PartialValueStrategy"
            return {name: [invalid(name, self.ids, reason)]}
        for strategy, side, listed in (
            ("PartialKeyStrategy", "key", self.key_projection_list),
            ("PartialValueStrategy", "value", self.value_projection_list),
        ):
            if self.ids == strategy and not listed:
                name = f"document.id.strategy.partial.{side}.projection.list"
                return {name: [invalid(name, "", f"{strategy} needs it")]}
        return {}
