"""Fencing the tasks of a source: whoever of them still writes cannot commit any more.

The leader does this between writing a new plan and letting its tasks start, and before it writes
offsets that a user has set.
"""

from collections.abc import Mapping

from odradek.client.admin.admin import Admin
from odradek.connect.engine.clients import ConnectorClients
from odradek.connect.engine.source_runner import transactional_id_of
from odradek.connect.errors import ConnectError
from odradek.protocol.errors import KafkaError


class Fencing:
    def __init__(self, clients: ConnectorClients, group_id: str) -> None:
        self._clients = clients
        self._group_id = group_id

    async def fence(self, name: str, properties: Mapping[str, str], count: int) -> None:
        """Fences the first `count` tasks of a connector, and aborts what they have open.
        `properties` are the connector's, with secrets."""
        ids = [transactional_id_of(self._group_id, name, number) for number in range(count)]
        if not ids:
            return
        async with Admin(self._clients.admin(properties)) as admin:
            for transactional_id, found in (await admin.fence_producers(ids)).items():
                if isinstance(found, KafkaError):
                    raise ConnectError(f"{transactional_id} cannot be fenced: {found}")
