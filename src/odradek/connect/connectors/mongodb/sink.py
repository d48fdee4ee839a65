"""Records as documents in MongoDB: `com.mongodb.kafka.connect.MongoSinkConnector`.

Records are written in their order, a bulk for each collection. With an id that comes from the
record (all strategies but BsonOidStrategy and UuidStrategy) a record that comes again after a
restart writes the same document again.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

from odradek.connect.connectors.connector import FailedRecord, SinkConnector, SinkTask
from odradek.connect.connectors.mongodb.sink_settings import MongoSinkSettings
from odradek.connect.connectors.mongodb.source import translated
from odradek.connect.errors import ConnectError, DataError
from odradek.connect.records import SinkRecord

# Imported after `source`, which says how to install PyMongo if it is missing.
import pymongo  # isort: skip
from pymongo import errors  # isort: skip
from odradek.connect.connectors.mongodb.sink_documents import Documents, Write  # isort: skip

# A duplicate key, and a document that the collection's rules refuse.
_OF_RECORD: Final = frozenset({11000, 11001, 12582, 121})


class MongoSink(SinkConnector):
    settings_class: ClassVar = MongoSinkSettings
    keeps_no_offsets: ClassVar = True

    def __init__(self, settings: MongoSinkSettings) -> None:
        self._settings = settings

    def task(self) -> "MongoSinkTask":
        return MongoSinkTask(self._settings)

    def wrong_outside(self) -> dict[str, list[str]]:
        task = self.task()
        try:
            task.check()
        except ConnectError as error:
            return {"connection.uri": [str(error)]}
        finally:
            task.close()
        return {}


class _Item(NamedTuple):
    record: SinkRecord
    write: Write
    database: str
    collection: str


class MongoSinkTask(SinkTask):
    def __init__(self, settings: MongoSinkSettings) -> None:
        self._settings = settings
        self._documents = Documents(settings)
        self._client: pymongo.MongoClient[dict[str, Any]] | None = None

    @property
    def client(self) -> "pymongo.MongoClient[dict[str, Any]]":
        if self._client is None:
            with translated("connection.uri"):
                self._client = pymongo.MongoClient(
                    self._settings.connection_uri,
                    serverSelectionTimeoutMS=self._settings.server_selection_timeout_ms,
                )
        return self._client

    def check(self) -> None:
        """Raises `ConnectError` if the servers do not answer, or refuse the user."""
        with translated("connection.uri"):
            self.client[self._settings.database].command("ping")

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        failed: list[FailedRecord] = []
        items: list[_Item] = []
        for record in records:
            try:
                write = self._documents.write(record)
            except DataError as error:
                failed.append(FailedRecord(record, error))
                continue
            if write is not None:
                items.append(_Item(record, write, *self._place(record.topic)))
        for _, found in groupby(items, key=lambda item: (item.database, item.collection)):
            for bulk in self._bulks(list(found)):
                failed += self._write(bulk)
        return failed

    def _place(self, topic: str) -> tuple[str, str]:
        settings, overrides = self._settings, self._settings.overrides
        return (
            overrides.get(f"{topic}.database", settings.database),
            overrides.get(f"{topic}.collection", settings.collection or topic),
        )

    def _bulks(self, items: list[_Item]) -> Iterator[list[_Item]]:
        most = self._settings.max_batch_size or len(items)
        for first in range(0, len(items), most):
            yield items[first : first + most]

    def _write(self, items: list[_Item]) -> list[FailedRecord]:
        """Writes documents of one collection. A server stops at the first one that it refuses, so
        those after it are sent again."""
        failed: list[FailedRecord] = []
        first = items[0]
        while items:
            try:
                with translated("connection.uri", passes=errors.BulkWriteError):
                    self.client[first.database][first.collection].bulk_write(
                        [item.write for item in items], ordered=self._settings.bulk_write_ordered
                    )
            except errors.BulkWriteError as error:
                wrong = error.details["writeErrors"] if error.details else []
                for one in wrong:
                    reason = DataError(f"MongoDB: {one.get('errmsg')}")
                    if one.get("code") not in _OF_RECORD:
                        raise reason from error
                    failed.append(FailedRecord(items[one["index"]].record, reason))
                if not wrong:
                    raise DataError(f"MongoDB: {error}") from error
                items = items[wrong[0]["index"] + 1 :] if self._settings.bulk_write_ordered else []
            else:
                return failed
        return failed
