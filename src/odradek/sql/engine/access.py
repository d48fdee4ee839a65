"""With whose rights a statement is carried out (docs/decisions/0105-log-ins-of-the-sql-server.md).

What a request asks of brokers it asks with the log-in of its caller: topics that are made and
deleted, rows that are inserted and read. A persistent query runs when its caller is gone, with the
log-in of the server. Therefore its caller has to have the rights that it will use: they are asked
for here, of the brokers.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

from odradek.client.admin.admin import Admin
from odradek.client.consumer.consumer import Consumer
from odradek.client.producer.producer import Producer
from odradek.protocol.acls import Operation
from odradek.protocol.errors import ErrorCode
from odradek.services.client_pool import CallerClients
from odradek.services.identity import Caller
from odradek.services.permissions import allowed_operations
from odradek.sql.errors import Forbidden

_WORDS: Final = {Operation.READ: "READ", Operation.WRITE: "WRITE", Operation.DELETE: "DELETE"}


class Access:
    """The Kafka clients of who asks."""

    def __init__(self, clients: CallerClients, *, is_checked: bool, command_topic: str) -> None:
        """`is_checked` says that callers log in. Where they do not, all of them are the server."""
        self._clients = clients
        self._is_checked = is_checked
        self._command_topic = command_topic

    @property
    def admin(self) -> Admin:
        return self._clients.admin

    @property
    def producer(self) -> Producer:
        return self._clients.producer

    @property
    def caller(self) -> Caller:
        """Who asks, with the secret: for other services that are asked in the caller's name."""
        return self._clients.caller

    @property
    def is_checked(self) -> bool:
        return self._is_checked

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Consumer]:
        """Lends a consumer without a group that is kept for the next request of the caller."""
        async with self._clients.reader() as reader:
            yield reader

    def consumer_properties(self) -> dict[str, object]:
        """Returns the properties of a consumer without a group. They have secrets."""
        return self._clients.properties("consumer")

    async def require(self, operation: Operation, topics: Iterable[str], what: str) -> None:
        """Raises `Forbidden` if the caller may not do something with topics. A topic that there is
        not is skipped: whoever uses it says so."""
        wanted = list(dict.fromkeys(topics))
        if not self._is_checked or not wanted:
            return
        allowed = await allowed_operations(self._clients, wanted)
        for topic in wanted:
            operations = allowed[topic]
            if operations == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if isinstance(operations, ErrorCode) or operation not in operations:
                raise Forbidden(
                    f"{self._clients.caller.name} may not {what}: it needs {_WORDS[operation]} on"
                    f" topic {topic}"
                )

    async def require_change(self) -> None:
        """Raises `Forbidden` if the caller may not change streams, tables, types and queries: that
        is who may write to the topic of statements."""
        await self.require(
            Operation.WRITE, [self._command_topic], "change streams, tables and queries"
        )
