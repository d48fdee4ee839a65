"""The actions of `odradek configs` about users, client ids and IP addresses: their quotas."""

import argparse
import asyncio
from collections.abc import Iterable

from odradek.cli.topics.configs import Entity
from odradek.client.admin.quotas import ANY_NAME, QuotaCalls
from odradek.config.spelling import did_you_mean
from odradek.protocol.errors import KafkaError
from odradek.security.quotas.entities import (
    QUOTA_KEYS,
    EntityType,
    InvalidQuota,
    QuotaEntity,
    check_quota,
    make_entity,
    parts_of,
)
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed, MissingFlag, UsageError
from odradek.tools.hints import hint
from odradek.tools.terminal import print_json

_TYPES = {"users": EntityType.USER, "clients": EntityType.CLIENT_ID, "ips": EntityType.IP}
# What Kafka's tool calls them when it describes quotas.
_SHOWN = {
    EntityType.USER.value: "user-principal",
    EntityType.CLIENT_ID.value: "client-id",
    EntityType.IP.value: "ip",
}


def run_quotas(
    arguments: argparse.Namespace,
    entities: list[Entity],
    added: dict[str, str],
    deleted: list[str],
) -> int:
    names = _names(entities)
    if arguments.describe:
        return asyncio.run(_describe(arguments, names))
    if None in names.values():
        raise MissingFlag("--alter needs the name: --user NAME, --client ID, --ip ADDRESS")
    try:
        entity = make_entity({kind.value: name or None for kind, name in names.items()})
        changes = _changes(entity, added, deleted)
    except InvalidQuota as error:
        raise UsageError(str(error)) from error
    return asyncio.run(_alter(arguments, entity, entities[0], changes))


def _names(entities: list[Entity]) -> dict[EntityType, str | None]:
    """Returns the names by type: None for all, an empty one for the default."""
    names: dict[EntityType, str | None] = {}
    for entity in entities:
        kind = _TYPES.get(entity.type)
        if kind is None:
            raise UsageError(f"{entity.type} have settings, not quotas: ask for them alone")
        if kind in names:
            raise UsageError(f"give one of the {entity.type}, not two")
        names[kind] = entity.name
    if EntityType.IP in names and len(names) > 1:
        raise UsageError("a quota of an ip cannot name a user or a client-id too")
    return names


def _changes(
    entity: QuotaEntity, added: dict[str, str], deleted: Iterable[str]
) -> dict[str, float | None]:
    changes: dict[str, float | None] = dict.fromkeys(deleted)
    for key, text in added.items():
        try:
            changes[key] = float(text)
        except ValueError:
            if key not in QUOTA_KEYS:
                # The text is not shown: it may be a password, given in another form than this.
                near = did_you_mean(key, QUOTA_KEYS)
                raise UsageError(
                    f"there is no quota {key}{near}; a password is given as --add-config"
                    " 'SCRAM-SHA-512=[password=...]'"
                ) from None
            raise UsageError(f"{key} is a number, not {text!r}") from None
    for key, value in changes.items():
        near = "" if key in QUOTA_KEYS else did_you_mean(key, QUOTA_KEYS)
        if near:
            raise UsageError(f"there is no quota {key}{near}")
        check_quota(entity, key, value)
    return changes


async def _describe(arguments: argparse.Namespace, names: dict[EntityType, str | None]) -> int:
    asked = {kind: ANY_NAME if name is None else name for kind, name in names.items()}
    entity = QuotaEntity(
        asked.get(EntityType.USER), asked.get(EntityType.CLIENT_ID), asked.get(EntityType.IP)
    )
    async with open_admin(QuotaCalls, arguments) as admin:
        # A user's own quotas, as in Kafka, and not also those of the user's client ids.
        found = await admin.describe_client_quotas(entity, strict=True)
    if not arguments.json:
        for one, quotas in found.items():
            values = ", ".join(f"{key}={value}" for key, value in quotas.items())
            print(f"Quota configs for {_described(one)} are {values}")
    users: list[object] = []
    if [*names] == [EntityType.USER] and names[EntityType.USER] != "":
        from odradek.cli.topics.user_actions import describe_passwords

        users = await describe_passwords(arguments, names[EntityType.USER])
    if arguments.json:
        print_json(
            [{"entity": parts_of(one), "quotas": quotas} for one, quotas in found.items()] + users
        )
    elif not found and not users:
        hint("there are no such quotas; --alter with --add-config sets one")
    return 0


def _described(entity: QuotaEntity) -> str:
    return ", ".join(
        f"the default {_SHOWN[kind]}" if name is None else f"{_SHOWN[kind]} '{name}'"
        for kind, name in parts_of(entity).items()
    )


async def _alter(
    arguments: argparse.Namespace,
    entity: QuotaEntity,
    first: Entity,
    changes: dict[str, float | None],
) -> int:
    async with open_admin(QuotaCalls, arguments) as admin:
        for answer in (await admin.alter_client_quotas({entity: changes})).values():
            if isinstance(answer, KafkaError):
                raise CommandFailed(answer.message)
    if arguments.json:
        removed = [key for key, value in changes.items() if value is None]
        added = {key: value for key, value in changes.items() if value is not None}
        print_json({"entity": parts_of(entity), "set": added, "deleted": removed})
    elif first.name:
        print(f"Completed updating config for {first.type[:-1]} {first.name}.")
    else:
        print(f"Completed updating default config for {first.type} in the cluster.")
    return 0
