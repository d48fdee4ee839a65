"""The action of `odradek leader-election`, after its flags are parsed."""

import argparse

from odradek.cli.replicas.replica_plans import read_partitions
from odradek.client.admin.partitions import ElectionType, PartitionCalls
from odradek.client.admin.topics import TopicCalls
from odradek.protocol.errors import ErrorCode
from odradek.protocol.types import TopicPartition
from odradek.tools.admin_session import named_partitions, open_admin
from odradek.tools.failures import CommandFailed
from odradek.tools.files import read_text
from odradek.tools.terminal import print_json
from odradek.wording import counted


def _partitions(arguments: argparse.Namespace) -> list[TopicPartition] | None:
    if arguments.topic is not None:
        return [TopicPartition(arguments.topic, arguments.partition)]
    path = arguments.path_to_json_file
    if path is not None:
        return read_partitions(read_text(path), path)
    return None


class _ElectionAdmin(PartitionCalls, TopicCalls):
    """The admin calls of this tool."""


async def elect(arguments: argparse.Namespace) -> int:
    kind = ElectionType[arguments.election_type.upper()]
    partitions = _partitions(arguments)
    async with open_admin(_ElectionAdmin, arguments) as admin:
        if partitions is not None:
            await named_partitions(admin, [f"{topic}:{index}" for topic, index in partitions])
        answers = await admin.elect_leaders(kind, partitions)
    elected, needless, failed = [], [], {}
    for partition, error in sorted(answers.items()):
        name = f"{partition.topic}-{partition.partition}"
        if error is None:
            elected.append(name)
        elif error.code == ErrorCode.ELECTION_NOT_NEEDED:
            needless.append(name)
        else:
            failed[name] = error.message
    if arguments.json:
        print_json({"elected": elected, "notNeeded": needless, "failed": failed})
        return 1 if failed else 0
    if elected:
        print(
            f"Successfully completed leader election ({kind.name}) for partitions"
            f" {', '.join(elected)}"
        )
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(needless)}")
    if not answers:
        print("Every partition has the right leader already.")
    for name, message in failed.items():
        print(f"Error completing leader election ({kind.name}) for partition: {name}: {message}")
    if failed:
        raise CommandFailed(f"{counted(len(failed), 'leader')} could not be elected")
    return 0
