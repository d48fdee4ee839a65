"""The statements of a file in place of the command topic (`ksql.queries.file`).

They are carried out in their order when the server starts, and nothing else changes the catalogue.
Queries have the same ids and go on where they were as long as the statements before them are the
same: new ones belong at the end of the file. Several servers with one file share the queries, as
they do with a command topic.
"""

import asyncio
from typing import Any

from odradek.sql.engine.commands import Command, CommandLog


class FileLog(CommandLog):
    """A log in memory. The topic has no records: the group of servers decides by its partition
    which of them runs the queries."""

    async def write(self, command: Command) -> Any:
        number = self.applied + 1
        outcome = await self._apply(command._replace(number=number))
        self.applied = number
        self._moved.set()
        return outcome

    async def run(self) -> None:
        self.is_reading = True
        self._loaded.set()
        await asyncio.Event().wait()
