"""The schema registry that the broker's settings name, with the questions of schema validation."""

import json
from typing import Final

from odradek.config import BrokerSettings, InvalidSetting
from odradek.schemas.errors import BadSetting, NotRegistered
from odradek.schemas.framing import SchemaId, id_text
from odradek.schemas.registry_client import RegistryClient, Schema
from odradek.schemas.registry_settings import RegistrySettings
from odradek.world.processes import Message

# The subjects of topics are in the default context, whose name is a dot.
_DEFAULT_CONTEXT: Final = "."


class AskedRegistry:
    """Calls block, so they are made in threads. They raise `RegistryFailed`."""

    def __init__(self, settings: BrokerSettings) -> None:
        """Raises `InvalidSetting`."""
        try:
            self._client = RegistryClient(RegistrySettings.from_properties(_properties(settings)))
        except BadSetting as error:
            name = "confluent.schema.registry.url"
            raise InvalidSetting(name, "...", str(error)) from None

    def subjects_of(self, schema_id: SchemaId) -> frozenset[str]:
        """Returns the subjects under which the schema is registered; none for an unknown one."""
        try:
            if isinstance(schema_id, bytes):
                places = self._client.ids_of_guid(id_text(schema_id))
                ids = [number for context, number in places if context == _DEFAULT_CONTEXT]
            else:
                ids = [schema_id]
            return frozenset(
                subject for number in ids for subject, _ in self._client.versions_of_id(number)
            )
        except NotRegistered:
            return frozenset()

    def record_name(self, schema_id: SchemaId) -> str:
        """Returns the full name of the record that the schema describes, empty if it has none. Of a
        Protobuf file it is its first message."""
        return _record_name(self._client.by_id_or_guid(schema_id))

    def source(self, schema_id: SchemaId) -> Message:
        """Returns what `decoding.decoder_of` needs of a schema, as JSON."""
        schema = self._client.by_id_or_guid(schema_id)
        return {"kind": schema.kind, "text": schema.text, "imports": [*map(list, schema.imports)]}

    def close(self) -> None:
        self._client.close()


def _properties(settings: BrokerSettings) -> dict[str, object]:
    """Returns the settings with the names that the client has for them."""
    tls = "schema.registry.ssl."
    return {
        "schema.registry.url": settings.confluent_schema_registry_url,
        "basic.auth.credentials.source": settings.confluent_basic_auth_credentials_source,
        "basic.auth.user.info": settings.confluent_basic_auth_user_info,
        "schema.registry.request.timeout.ms": settings.odradek_schema_registry_timeout_ms,
        f"{tls}truststore.location": settings.confluent_ssl_truststore_location,
        f"{tls}truststore.password": settings.confluent_ssl_truststore_password,
        f"{tls}keystore.location": settings.confluent_ssl_keystore_location,
        f"{tls}keystore.password": settings.confluent_ssl_keystore_password,
        f"{tls}key.password": settings.confluent_ssl_key_password,
        "max.retries": 0,  # A producer asks again.
    }


def _record_name(schema: Schema) -> str:
    if schema.kind == "PROTOBUF":
        from odradek.schemas.protobuf_descriptors import ProtobufSchema  # noqa: PLC0415 - an extra

        file = ProtobufSchema.from_text(schema.text, schema.imports)
        return str(file.message_at((0,)).full_name)
    content = json.loads(schema.text)
    if not isinstance(content, dict):
        return ""
    if schema.kind == "JSON":
        return str(content.get("title", ""))
    name, namespace = str(content.get("name", "")), content.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name
