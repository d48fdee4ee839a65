"""What the shell suggests for the values of flags: keys of settings, and names of the cluster.

Keys are written into the completion script. Names of topics and groups change, so the script asks
for them: `odradek completion topics LINE...`, where LINE is what was typed so far, because it may
say which brokers to ask. If they do not answer at once, nothing is suggested.
"""

import argparse
import contextlib
import io
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

# What the script asks for at run time.
NAMES: Final = ("topics", "groups", "profiles")
_NAMED_BY: Final = {"--topic": "topics", "--group": "groups", "--profile": "profiles"}
_TIMEOUT_S: Final = 2.0
# Flags of the typed line that say which brokers to ask.
_ADDRESSES: Final = {
    "--bootstrap-server": "bootstrap_server",
    "--broker-list": "bootstrap_server",
    "--command-config": "command_config",
    "--profile": "profile",
}


def names_for(flag: str) -> str | None:
    """Returns which names of the cluster a flag takes, one of `NAMES`."""
    return _NAMED_BY.get(flag)


@cache
def keys_for(command: str, flag: str) -> tuple[str, ...]:
    """Returns the keys that a flag takes, with `=` if a value follows."""
    if flag == "--config" and command != "topics":
        return ()  # Elsewhere it names a file.
    keys_of = _KEYS.get(flag)
    if keys_of is None:
        return ()
    keys = keys_of()
    return tuple(keys) if flag == "--delete-config" else tuple(f"{key}=" for key in keys)


def _topic_keys() -> list[str]:
    from odradek.config.topic_settings import TopicSettings

    return sorted(TopicSettings.declared)


def _broker_keys() -> list[str]:
    from odradek.config.broker_settings import BrokerSettings

    return sorted(BrokerSettings.declared)


def _group_keys() -> list[str]:
    from odradek.config.consumer_group_settings import GROUP_DECLARED

    return sorted(GROUP_DECLARED)


def client_keys() -> list[str]:
    from odradek.client.settings import AdminSettings, ConsumerSettings, ProducerSettings

    kinds = (AdminSettings, ConsumerSettings, ProducerSettings)
    return sorted({name for kind in kinds for name in kind.declared()})


def _reader_keys() -> Sequence[str]:
    from odradek.cli.records.line_reader import PROPERTIES

    return PROPERTIES


def _formatter_keys() -> Sequence[str]:
    from odradek.cli.records.record_formatter import PROPERTIES

    return PROPERTIES


def _dynamic_keys() -> list[str]:
    from odradek.security.quotas.entities import QUOTA_KEYS

    return sorted({*_topic_keys(), *_broker_keys(), *_group_keys(), *QUOTA_KEYS})


_KEYS: Final[dict[str, Callable[[], Sequence[str]]]] = {
    "--add-config": _dynamic_keys,
    "--command-property": client_keys,
    "--config": _topic_keys,
    "--delete-config": _dynamic_keys,
    "--formatter-property": _formatter_keys,
    "--override": _broker_keys,
    "--reader-property": _reader_keys,
}


# At run time


def print_names(kind: str, line: Sequence[str]) -> int:
    """Prints the names, one a line. Whatever goes wrong, nothing is printed: the user is typing."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            names = _profiles() if kind == "profiles" else _of_cluster(kind, _address(line))
    except Exception:  # noqa: BLE001 - see above
        return 0
    for name in names:
        print(name)
    return 0


def _profiles() -> list[str]:
    from odradek.tools.profiles import profile_names

    return profile_names()


def _address(line: Sequence[str]) -> argparse.Namespace:
    options: dict[str, object] = dict.fromkeys(_ADDRESSES.values())
    for position, word in enumerate(line):
        flag, equals, value = word.partition("=")
        if flag in _ADDRESSES:
            following = line[position + 1] if position + 1 < len(line) else ""
            options[_ADDRESSES[flag]] = value if equals else following
    return argparse.Namespace(**options, command_property=[], zookeeper=None)


def _of_cluster(kind: str, address: argparse.Namespace) -> list[str]:
    import asyncio

    return asyncio.run(_ask(kind, address))


async def _ask(kind: str, address: argparse.Namespace) -> list[str]:
    import asyncio

    from odradek.tools.admin_session import open_admin

    async with asyncio.timeout(_TIMEOUT_S):
        if kind == "topics":
            from odradek.client.admin.topics import TopicCalls

            async with open_admin(TopicCalls, address, retries="0") as topics:
                return sorted(await topics.list_topics(include_internal=True))
        from odradek.client.admin.groups import GroupCalls

        async with open_admin(GroupCalls, address, retries="0") as groups:
            return sorted(group.group_id for group in await groups.list_groups())
