"""`odradek verifiable-consumer`: reads records and reports them as JSON.

Its output is that of kafka-verifiable-consumer. Without `--group-id` it reads all partitions and
commits nothing.
"""

import argparse

from odradek.cli.connection_options import add_connection_arguments
from odradek.cli.parser import flag_of, positive_number, used_flags, whole_number
from odradek.tools.client_properties import client_properties
from odradek.tools.failures import UsageError

# Flags that mean something in a group only, and the client property that each of them sets.
_GROUP_FLAGS = {
    "group_instance_id": "group.instance.id",
    "group_protocol": "group.protocol",
    "group_remote_assignor": "group.remote.assignor",
    "session_timeout": "session.timeout.ms",
    "assignment_strategy": "partition.assignment.strategy",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="NAME", required=True, help="the topic to read")
    parser.add_argument(
        "--max-messages",
        metavar="N",
        type=whole_number,
        default=-1,
        help="how many to read; -1 until stopped (default: -1)",
    )
    parser.add_argument("--verbose", action="store_true", help="report each record as well")
    parser.add_argument(
        "--reset-policy",
        choices=("earliest", "latest", "none"),
        default="earliest",
        help="where to start, in a group if it has no offset; none ends it then"
        " (default: earliest)",
    )
    group = parser.add_argument_group("in a group")
    group.add_argument(
        "--group-id",
        metavar="ID",
        help="share the records with other consumers of this group, and commit offsets",
    )
    group.add_argument(
        "--enable-autocommit",
        action="store_true",
        help="commit now and then (auto.commit.interval.ms), not after each batch of records",
    )
    group.add_argument("--group-instance-id", metavar="ID", help="be a static member by this name")
    group.add_argument(
        "--group-protocol",
        choices=("classic", "consumer"),
        type=str.lower,
        help="how members get partitions (default: classic)",
    )
    group.add_argument(
        "--group-remote-assignor", metavar="NAME", help="the assignor of the brokers to use"
    )
    group.add_argument(
        "--session-timeout",
        metavar="MS",
        type=positive_number,
        help="how long the group waits for a member that is silent",
    )
    group.add_argument(
        "--assignment-strategy", metavar="CLASS", help="the assignor of the classic protocol"
    )
    add_connection_arguments(parser, older_role="consumer")


def consumer_properties(arguments: argparse.Namespace) -> dict[str, str]:
    properties = client_properties(arguments, client_id="verifiable-consumer")
    if arguments.group_id is not None:
        properties["group.id"] = arguments.group_id
    if not properties.get("group.id"):
        needing = used_flags(arguments, (*_GROUP_FLAGS, "enable_autocommit"))
        if needing:
            raise UsageError(f"{flag_of(needing[0])} goes with --group-id ID")
        if arguments.reset_policy == "none":
            raise UsageError("--reset-policy none goes with --group-id ID, which has offsets")
        return properties
    for name, key in _GROUP_FLAGS.items():
        if (value := getattr(arguments, name)) is not None:
            properties[key] = str(value)
    properties["auto.offset.reset"] = arguments.reset_policy
    properties["enable.auto.commit"] = str(arguments.enable_autocommit).lower()
    return properties


def run(arguments: argparse.Namespace) -> int:
    properties = consumer_properties(arguments)
    import asyncio

    from odradek.cli.records.verifiable_consumer_actions import consume

    return asyncio.run(consume(arguments, properties))
