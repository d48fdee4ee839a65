"""The bodies of requests and answers, with the names of Confluent's registry.

Members that are unknown are skipped, because newer clients send more.
"""

from typing import Any

import msgspec

from odradek.registry.records import Json, Reference, Version
from odradek.registry.state import guid
from odradek.schemas.inline_tags import SchemaTags


class RegisterSchemaRequest(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A schema to register, to look up or to compare. Without `schema`, the newest version of the
    subject is taken with other metadata or rules."""

    schema: str | None = None
    schema_type: str | None = None
    references: list[Reference] | None = None
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int | None = None
    version: int | None = None
    schema_tags_to_add: list[SchemaTags] | None = None
    schema_tags_to_remove: list[SchemaTags] | None = None
    propagate_schema_tags: bool | None = None


class TagSchemaRequest(msgspec.Struct, omit_defaults=True, rename="camel"):
    """Other metadata and rules for a version, which become a new version."""

    new_version: int | None = None
    tags_to_add: list[SchemaTags] | None = None
    tags_to_remove: list[SchemaTags] | None = None
    metadata: Json | None = None
    rule_set: Json | None = None
    rules_to_merge: Json | None = None
    rules_to_remove: list[str] | None = None


class ConfigUpdateRequest(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The configuration of a subject, a context, or all. Members that are left out stay."""

    compatibility: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_level: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_group: str | msgspec.UnsetType | None = msgspec.UNSET
    compatibility_policy: str | msgspec.UnsetType | None = msgspec.UNSET
    alias: str | msgspec.UnsetType | None = msgspec.UNSET
    alias_for_deks: str | msgspec.UnsetType | None = msgspec.UNSET
    normalize: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_fields: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_new_schemas: bool | msgspec.UnsetType | None = msgspec.UNSET
    validate_rules: bool | msgspec.UnsetType | None = msgspec.UNSET
    default_metadata: Json | msgspec.UnsetType | None = msgspec.UNSET
    override_metadata: Json | msgspec.UnsetType | None = msgspec.UNSET
    default_rule_set: Json | msgspec.UnsetType | None = msgspec.UNSET
    override_rule_set: Json | msgspec.UnsetType | None = msgspec.UNSET


class ModeUpdateRequest(msgspec.Struct, omit_defaults=True, rename="camel"):
    """READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""

    mode: str | None = None


class RegisteredSchema(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A version of a subject."""

    id: int
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    schema_type: str | None = None
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    schema: str | None = None
    ts: int | None = None
    deleted: bool = False
    schema_tags: list[SchemaTags] | None = None
    aliases: list[str] | None = None


class SchemaString(msgspec.Struct, omit_defaults=True, rename="camel"):
    """A schema by its id."""

    schema: str
    schema_type: str | None = None
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    guid: str | None = None
    subject: str | None = None
    version: int | None = None
    max_id: int | None = None
    ts: int | None = None
    deleted: bool | None = None
    schema_tags: list[SchemaTags] | None = None


class SubjectVersion(msgspec.Struct):
    subject: str
    version: int


class ContextId(msgspec.Struct):
    context: str
    id: int


class CompatibilityCheckResponse(msgspec.Struct, omit_defaults=True):
    is_compatible: bool
    messages: list[str] | None = None


class Mode(msgspec.Struct):
    mode: str | None


class Config(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What was set. The answer to PUT has `compatibility` in place of `compatibilityLevel`."""

    compatibility_level: str | None = None
    compatibility: str | None = None
    compatibility_group: str | None = None
    compatibility_policy: str | None = None
    alias: str | None = None
    alias_for_deks: str | None = None
    normalize: bool | None = None
    validate_fields: bool | None = None
    validate_new_schemas: bool | None = None
    validate_rules: bool | None = None
    default_metadata: Json | None = None
    override_metadata: Json | None = None
    default_rule_set: Json | None = None
    override_rule_set: Json | None = None


class ServerClusterId(msgspec.Struct):
    id: str
    scope: Json


class ServerDeployment(msgspec.Struct):
    attributes: list[str]


class ServerVersion(msgspec.Struct, rename="camel"):
    version: str
    commit_id: str


def registered(version: Version, schema: str | None = None) -> RegisteredSchema:
    """Returns a version as the answers of most endpoints have it."""
    return RegisteredSchema(
        id=version.id,
        subject=version.subject,
        version=version.version,
        guid=guid(version),
        schema_type=version.schema_type,
        references=version.references,
        metadata=version.metadata,
        rule_set=version.rule_set,
        schema=version.schema if schema is None else schema,
        ts=version.ts,
        deleted=version.deleted,
    )


def config_answer(config: Json, *, as_request: bool = False) -> Json:
    """Returns a configuration without the name of its subject. The answer to a change calls the
    level `compatibility`, as the request does."""
    found: dict[str, Any] = {name: value for name, value in config.items() if name != "subject"}
    if as_request and "compatibilityLevel" in found:
        found["compatibility"] = found.pop("compatibilityLevel")
    return found
