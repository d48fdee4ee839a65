"""The actions of `odradek keys`. No broker is asked."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import cast

from odradek.config import BrokerSettings
from odradek.config.key_settings import NO_PROVIDER
from odradek.config.setting import InvalidSetting
from odradek.security.keys.opening import open_provider
from odradek.security.keys.provider import (
    KeyAdministration,
    KeyDescription,
    KeyProvider,
    KeyProviderError,
)
from odradek.storage.file_names import LOCK
from odradek.tools.client_properties import read_properties
from odradek.tools.failures import CommandFailed
from odradek.tools.terminal import print_json, table
from odradek.wording import counted
from odradek.world import World


def carried_out(action: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        return action(arguments)
    except (KeyProviderError, InvalidSetting) as error:
        raise CommandFailed(str(error)) from None


def settings_of(key_file: str | None, config: str | None) -> BrokerSettings:
    if config is not None:
        settings = BrokerSettings.from_properties(read_properties(config))
        if settings.odradek_key_provider == NO_PROVIDER:
            raise CommandFailed(f"{config} has no key provider; set odradek.key.provider in it")
        return settings
    return BrokerSettings.from_properties(
        {"odradek.key.provider": "file", "odradek.key.file": key_file or ""}
    )


def _provider(arguments: argparse.Namespace) -> KeyProvider:
    return open_provider(settings_of(arguments.key_file, arguments.config), World())


def _administration(arguments: argparse.Namespace) -> KeyAdministration:
    provider = _provider(arguments)
    if not hasattr(provider, "describe"):
        raise CommandFailed(
            f"{type(provider).__name__} does not administer keys; use the tools of your key service"
        )
    return cast(KeyAdministration, provider)


def create(arguments: argparse.Namespace) -> int:
    _administration(arguments).create(arguments.name)
    if arguments.json:
        print_json({"name": arguments.name, "version": 1})
    else:
        print(f"Created the key {arguments.name}. Keep a copy: without it the records are lost.")
    return 0


def rotate(arguments: argparse.Namespace) -> int:
    version = _administration(arguments).rotate(arguments.name)
    if arguments.json:
        print_json({"name": arguments.name, "version": version})
    else:
        print(f"The key {arguments.name} has version {version} now. New segments use it.")
    return 0


def show(arguments: argparse.Namespace) -> int:
    provider = _administration(arguments)
    names = [arguments.name] if arguments.name else provider.names()
    keys = [provider.describe(name) for name in names]
    if arguments.json:
        print_json([_as_json(key) for key in keys])
        return 0
    rows = [
        [
            key.name,
            str(key.latest),
            ", ".join(map(str, key.versions)),
            _date(key.versions[key.latest]) if key.versions else "",
        ]
        for key in keys
    ]
    print(table(["KEY", "LATEST", "VERSIONS", "SINCE"], rows))
    return 0


def _as_json(key: KeyDescription) -> dict[str, object]:
    return {
        "name": key.name,
        "versions": {str(version): created_ms for version, created_ms in key.versions.items()},
    }


def _date(time_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(time_ms / 1000)) if time_ms else "-"


def shred(arguments: argparse.Namespace) -> int:
    provider = _administration(arguments)
    name = arguments.name
    provider.describe(name)
    if not arguments.force:
        if not sys.stdin.isatty():
            raise CommandFailed(f"add --force to delete the key {name} without being asked")
        print(f"Nothing that was encrypted under {name} can ever be read again.")
        if input("Type the name of the key to delete it: ").strip() != name:
            raise CommandFailed("nothing was deleted")
    provider.destroy(name)
    if arguments.json:
        print_json({"name": name, "deleted": True})
    else:
        print(f"Deleted the key {name}, with all versions. Delete its backups too.")
    return 0


def rewrap(arguments: argparse.Namespace) -> int:
    from odradek.storage.encryption.rewrapping import rewrap_directory

    settings, world = settings_of(None, arguments.config), World()
    provider = open_provider(settings, world)
    encrypted = changed = 0
    for path in settings.data_directories:
        if not world.disk.exists(path):
            continue
        try:
            lock = world.disk.lock(f"{path}/{LOCK}")
        except BlockingIOError:
            raise CommandFailed(f"{path} is in use by a broker; stop it first") from None
        try:
            done = rewrap_directory(world.disk, path, provider, arguments.name)
        finally:
            lock.release()
        encrypted, changed = encrypted + done.encrypted, changed + done.changed
    if arguments.json:
        print_json({"encrypted": encrypted, "rewrapped": changed})
    else:
        files = counted(encrypted, "encrypted file")
        print(f"There are {files}. The keys of {changed} were wrapped again.")
    return 0
