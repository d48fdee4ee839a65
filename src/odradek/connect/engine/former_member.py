"""Takes a sink task's former self out of its group, so that the group need not wait for it.

A worker that was killed leaves the members of its sinks behind: Kafka would count each of them
until its session times out (45 s), and give its partitions to nobody. When the task starts
elsewhere, it removes the member with its own `client.id`, which nobody else has:
`connector-consumer-NAME-N`, as in Kafka Connect. A former self that still lives, such as on a
worker that was cut off, learns by it that it is not a member any more, and cannot commit.
"""

import logging
from collections.abc import Mapping

from odradek.client.admin.admin import Admin
from odradek.client.admin.group_types import MemberToRemove
from odradek.client.errors import ClientError
from odradek.client.settings import AdminSettings
from odradek.protocol.errors import KafkaError

_log = logging.getLogger("odradek.connect")


def client_id_of(connector: str, number: int) -> str:
    return f"connector-consumer-{connector}-{number}"


async def remove_former_member(
    properties: Mapping[str, object], group: str, client_id: str
) -> None:
    """`properties` are those of the consumer. Without the right to do it nothing is removed."""
    known = AdminSettings.declared()
    options = {name: value for name, value in properties.items() if name in known}
    try:
        async with Admin(options) as admin:
            found = (await admin.describe_groups([group]))[group]
            if isinstance(found, KafkaError):
                return
            former = [
                MemberToRemove(member.member_id)
                for member in found.members
                if member.client_id == client_id and member.group_instance_id is None
            ]
            if former:
                await admin.remove_members(group, former, reason="the task runs elsewhere now")
                _log.info("removed the former member of group %s", group)
    except (ClientError, KafkaError) as error:
        _log.info("the former member of group %s was not removed: %s", group, error)
