"""What the tasks that read change streams have in common: the servers, and the stream."""

from abc import abstractmethod
from typing import Any

from odradek.connect.connectors.cdc.stepping_task import SteppingTask
from odradek.connect.connectors.mongodb.source import MongoServers, translated
from odradek.connect.connectors.positions import SourcePartition


class ChangeStreamTask(SteppingTask):
    """A subclass makes the steps, and opens the stream for them."""

    def __init__(
        self, servers: MongoServers, partition: SourcePartition, max_batch_size: int
    ) -> None:
        super().__init__(partition, max_batch_size)
        self._servers = servers
        self._stream: Any = None

    @abstractmethod
    def _forget(self) -> None:
        """Forgets where the stream is."""

    def close(self) -> None:
        super().close()
        self._servers.close()

    def _end_connection(self) -> None:
        self._close_stream()
        self._forget()

    def _close_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with translated():
                stream.close()
