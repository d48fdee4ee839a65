"""The actions of `odradek configs` about users that log in by SCRAM.

    odradek configs --alter --user ada --add-config 'SCRAM-SHA-512=[password=...]'
    odradek configs --alter --user ada --delete-config SCRAM-SHA-512
    odradek configs --describe --entity-type users

A password is salted and hashed here, so that it is never sent. `configs --zookeeper ENSEMBLE`
writes into the metadata store itself, as Kafka's tool did: brokers that log in to each other by
SCRAM need a user before the first of them starts.
"""

import argparse
from collections.abc import Iterable, Mapping

from odradek.cli.topics.configs import Entity
from odradek.client.admin.users import ScramDeletion, ScramUpsertion, UserCalls
from odradek.protocol.errors import KafkaError
from odradek.security.scram import ScramMechanism
from odradek.tools.admin_session import open_admin
from odradek.tools.failures import CommandFailed, MissingFlag, UsageError
from odradek.tools.scram_flags import credential_of_config
from odradek.tools.terminal import print_json


async def alter_passwords(
    arguments: argparse.Namespace,
    entities: list[Entity],
    added: Mapping[str, str],
    deleted: Iterable[str],
) -> int:
    """Gives a user passwords, or takes them away: one for each mechanism."""
    user = _user(entities)
    changes: list[ScramUpsertion | ScramDeletion] = [
        credential_of_config(user, _mechanism(name), value) for name, value in added.items()
    ]
    changes += [ScramDeletion(user, _mechanism(name)) for name in deleted]
    if isinstance(arguments.zookeeper, str):
        await _write_into_ensemble(arguments.zookeeper, arguments.zk_tls_config_file, changes)
    else:
        async with open_admin(UserCalls, arguments) as admin:
            # A request may name a user once.
            for change in changes:
                answers = await admin.alter_user_scram_credentials([change])
                for answer in answers.values():
                    if isinstance(answer, KafkaError):
                        raise CommandFailed(answer.message)
    if arguments.json:
        print_json({"entity": {"user": user}, "set": [*added], "deleted": [*deleted]})
    else:
        print(f"Completed updating config for user {user}.")
    return 0


async def describe_passwords(arguments: argparse.Namespace, name: str | None) -> list[object]:
    """Prints which mechanisms the users have a password for, as Kafka's tool does. Returns them for
    `--json`."""
    async with open_admin(UserCalls, arguments) as admin:
        answers = await admin.describe_user_scram_credentials(None if name is None else [name])
    found: list[object] = []
    for user, mechanisms in answers.items():
        if isinstance(mechanisms, KafkaError):
            continue  # The user has no password.
        iterations = {one.kafka_name: count for one, count in mechanisms.items()}
        found.append({"entity": {"user": user}, "scram": iterations})
        if not arguments.json:
            shown = ", ".join(f"{one}=iterations={count}" for one, count in iterations.items())
            print(f"SCRAM credential configs for user-principal '{user}' are {shown}")
    return found


def _user(entities: list[Entity]) -> str:
    if len(entities) > 1 or entities[0].type != "users":
        raise UsageError("a password belongs to a user alone: give --user NAME, and no client")
    name = entities[0].name
    if name is None:
        raise MissingFlag("--alter needs the name: --user NAME")
    if not name:
        raise UsageError("there is no default password of all users; give --user NAME")
    return name


def _mechanism(name: str) -> ScramMechanism:
    mechanism = ScramMechanism.named(name)
    if mechanism is None and name.upper().startswith("SCRAM"):
        names = " and ".join(one.kafka_name for one in ScramMechanism)
        raise UsageError(f"there is no mechanism {name}; there are {names}")
    if mechanism is None:
        raise UsageError(
            f"{name} is a quota, or no setting of users; change passwords and quotas separately"
        )
    return mechanism


async def _write_into_ensemble(
    address: str, zookeeper_file: str | None, changes: list[ScramUpsertion | ScramDeletion]
) -> None:
    from odradek.cli.cluster.metadata_stores import opened_for_writing
    from odradek.cli.cluster.zookeeper_connection import zookeeper_settings
    from odradek.local.first_users import write_users

    users = [change for change in changes if isinstance(change, ScramUpsertion)]
    if len(users) < len(changes):
        raise UsageError(
            "--zookeeper adds users before brokers run; ask the brokers to delete one:"
            " --bootstrap-server HOST:PORT"
        )
    settings = zookeeper_settings(zookeeper_file, address)
    async with opened_for_writing(settings) as metadata:
        await write_users(metadata, users)
