"""The actions of `odradek client-metrics`, after its flags are parsed."""

import argparse
from collections.abc import Mapping

from odradek.client.admin.config_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
)
from odradek.client.admin.configs import ConfigCalls
from odradek.config.operation import ConfigOperation
from odradek.protocol.errors import KafkaError
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.hints import hint_if_none
from odradek.tools.terminal import print_json


async def alter(arguments: argparse.Namespace, given: Mapping[str, str]) -> int:
    """Sets what was given; an empty value goes back to the default."""
    name = arguments.name or _generated_name()
    changes = [
        ConfigChange(key, value) if value else ConfigChange(key, None, ConfigOperation.DELETE)
        for key, value in given.items()
    ]
    async with open_admin(ConfigCalls, arguments) as admin:
        await _change(admin, name, changes)
    if arguments.json:
        print_json({"name": name, "set": dict(given)})
    else:
        print(f"Altered client metrics config for {name}.")
    return 0


async def delete(arguments: argparse.Namespace) -> int:
    name = arguments.name
    async with open_admin(ConfigCalls, arguments) as admin:
        own = await _entries(admin, name)
        if not own:
            raise CommandFailed(
                f"there is no subscription {name}; odradek client-metrics --list shows all"
            )
        await _change(
            admin, name, [ConfigChange(entry.name, None, ConfigOperation.DELETE) for entry in own]
        )
    if arguments.json:
        print_json({"name": name, "deleted": True})
    else:
        print(f"Deleted client metrics config for {name}.")
    return 0


async def describe(arguments: argparse.Namespace) -> int:
    async with open_admin(ConfigCalls, arguments) as admin:
        names = [arguments.name] if arguments.name else await _names(admin)
        found = {name: await _entries(admin, name) for name in names}
    if arguments.name and not found[arguments.name]:
        raise CommandFailed(
            f"there is no subscription {arguments.name}; odradek client-metrics --list shows all"
        )
    if arguments.json:
        print_json(
            [
                {"name": name, "configs": {entry.name: entry.value for entry in entries}}
                for name, entries in found.items()
            ]
        )
        return 0
    for name, entries in found.items():
        print(f"Client metrics configs for {name} are:")
        for entry in entries:
            print(f"  {entry.name}={entry.value}")
    return 0


async def list_names(arguments: argparse.Namespace) -> int:
    async with open_admin(ConfigCalls, arguments) as admin:
        names = await _names(admin)
    if arguments.json:
        print_json(names)
    elif names:
        print("\n".join(names))
    else:
        hint_if_none(names, "there are no subscriptions; odradek client-metrics --alter makes one")
    return 0


async def _names(admin: ConfigCalls) -> list[str]:
    found = await admin.list_config_resources([ConfigType.CLIENT_METRICS])
    return sorted(resource.name for resource in found)


async def _entries(admin: ConfigCalls, name: str) -> list[ConfigEntry]:
    """Returns the settings that were made for a subscription; none if there is none."""
    resource = ConfigResource(ConfigType.CLIENT_METRICS, name)
    (answer,) = (await admin.describe_configs([resource])).values()
    if isinstance(answer, KafkaError):
        raise CommandFailed(answer.message)
    own = [entry for entry in answer.values() if entry.source is ConfigSource.CLIENT_METRICS_CONFIG]
    return sorted(own, key=lambda entry: entry.name)


async def _change(admin: ConfigCalls, name: str, changes: list[ConfigChange]) -> None:
    resource = ConfigResource(ConfigType.CLIENT_METRICS, name)
    for answer in (await admin.incremental_alter_configs({resource: changes})).values():
        if isinstance(answer, KafkaError):
            raise CommandFailed(answer.message)


def _generated_name() -> str:
    from base64 import urlsafe_b64encode

    from odradek.world.randomness import Randomness

    return urlsafe_b64encode(Randomness().uuid().bytes).rstrip(b"=").decode()
