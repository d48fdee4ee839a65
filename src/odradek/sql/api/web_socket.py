"""/ws/query: a query over a web socket.

The query parameter `request` is the body of /query. The first message has the columns, each of the
others a row, or a line of PRINT. The server closes with 1000 when the query has ended, 1003 if it
cannot be answered, 1013 if an earlier statement is not applied yet, 1011 if it fails later. A
client that closes ends its query.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from starlette.websockets import WebSocket

from odradek.client.errors import ClientError
from odradek.protocol.errors import KafkaError
from odradek.sql.api.bodies import KsqlRequest, read
from odradek.sql.api.printing import printed
from odradek.sql.api.queries import Queries, batches
from odradek.sql.api.results import old_row
from odradek.sql.engine.access import Access
from odradek.sql.engine.entities import column_fields
from odradek.sql.engine.sessions import Session
from odradek.sql.errors import SqlError
from odradek.sql.language import statements as s
from odradek.streams.formats.columns import to_json
from odradek.web.problems import Problem

if TYPE_CHECKING:
    from odradek.sql.api.service import SqlService

_DONE: Final = 1000
_NOT_TAKEN: Final = 1003
_FAILED: Final = 1011
_TRY_AGAIN: Final = 1013
_MAX_REASON: Final = 120
"""How many bytes of a reason fit into the frame that closes."""


class QueriesBySocket:
    def __init__(self, service: "SqlService", queries: Queries) -> None:
        self._service = service
        self._queries = queries

    async def talk(self, socket: WebSocket) -> None:
        await socket.accept()
        code, reason = _DONE, "done"
        try:
            async with self._service.access(socket) as access:
                await self._answer(socket, access)
        except Problem as problem:
            code = _TRY_AGAIN if problem.status == 503 else _NOT_TAKEN
            reason = problem.message
        except SqlError as error:
            code, reason = _NOT_TAKEN, str(error)
        except (ClientError, KafkaError) as error:
            code, reason = _FAILED, str(error)
        await socket.close(code, _shortened(reason))

    async def _answer(self, socket: WebSocket, access: Access) -> None:
        text = socket.query_params.get("request", "")
        if not text:
            raise Problem(400, "Error parsing request: missing request parameter")
        body = read(text.encode(), KsqlRequest)
        if body.commandSequenceNumber is not None:
            await self._service.wait_for(body.commandSequenceNumber)
        session = Session(*body.given())
        statement = self._queries.one_statement(body.ksql, session)
        if isinstance(statement, s.PrintTopic):
            await self._print(socket, statement, access)
            return
        async with self._queries.opened(statement, session, access) as (answer, _, closed):
            gone = asyncio.create_task(_until_gone(socket, closed))
            try:
                await socket.send_text(to_json(column_fields(answer.columns)))
                async for rows in batches(answer, closed):
                    for row in rows:
                        await socket.send_text(old_row(row, answer.columns))
            finally:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)

    async def _print(self, socket: WebSocket, statement: s.PrintTopic, access: Access) -> None:
        lines = await printed(access, statement, self._queries.registry)
        sending = asyncio.create_task(_send_all(socket, lines))
        gone = asyncio.create_task(_until_gone(socket, asyncio.Event()))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            await lines.aclose()


async def _send_all(socket: WebSocket, lines: AsyncGenerator[bytes]) -> None:
    async for line in lines:
        await socket.send_text(line.decode().rstrip("\n"))


async def _until_gone(socket: WebSocket, closed: asyncio.Event) -> None:
    """Notes that the client has closed. What it sends means nothing."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
    closed.set()


def _shortened(reason: str) -> str:
    return reason.encode()[:_MAX_REASON].decode(errors="ignore")
