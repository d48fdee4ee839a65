"""What the source of change events asks of MongoDB."""

from typing import Any

import pymongo

from odradek.connect.connectors.mongodb.event_positions import EventPosition
from odradek.connect.connectors.mongodb.event_settings import AT_A_TIME, MongoEventSettings
from odradek.connect.connectors.mongodb.records import Collection
from odradek.connect.connectors.mongodb.source import MongoServers, translated

URI = "connection.uri"


class MongoEventSource(MongoServers):
    def __init__(self, settings: MongoEventSettings) -> None:
        super().__init__()
        self._settings = settings

    def _connected(self) -> "pymongo.MongoClient[dict[str, Any]]":
        settings = self._settings
        with translated(URI):
            return pymongo.MongoClient(
                settings.connection_uri,
                serverSelectionTimeoutMS=settings.server_selection_timeout_ms,
                appname="odradek",
                datetime_conversion="DATETIME_MS",  # Dates may be beyond Python's.
            )

    def first_position(self) -> EventPosition:
        """Returns where a connector without an offset begins."""
        settings = self._settings
        wanted = settings.start_time() if settings.startup_mode == AT_A_TIME else None
        return EventPosition(time=wanted or self.now().time)

    def watched(self) -> list[Collection]:
        """Returns the collections whose documents are copied, in the order of their names."""
        settings = self._settings
        pattern = settings.copies()
        if settings.collection:
            found = [Collection(settings.database, settings.collection)]
        else:
            found = [
                collection
                for collection in self.collections()
                if settings.database in ("", collection.database)
            ]
        return sorted(
            collection
            for collection in found
            if pattern is None or pattern.search(collection.full_name)
        )

    def last_key(
        self, collection: Collection, after: Any, has_after: bool, count: int
    ) -> tuple[Any, bool] | None:
        """Returns the `_id` with which the next `count` documents end, and whether these are the
        last ones; None if there are none."""
        condition = _behind(after) if has_after else {}
        with translated(URI):
            found = self.client[collection.database][collection.name]
            keys = list(found.find(condition, {"_id": 1}).sort("_id", 1).limit(count + 1))
        if not keys:
            return None
        return keys[min(count, len(keys)) - 1]["_id"], len(keys) <= count

    def selected(
        self, collection: Collection, after: Any, has_after: bool, last: Any
    ) -> list[dict[str, Any]]:
        """Returns the documents up to `last` as events, as the two pipelines make them."""
        settings = self._settings
        later = _behind(after) if has_after else {}
        up_to = {"$expr": {"$lte": ["$_id", {"$literal": last}]}}
        event = {
            "_id": {"_id": "$_id", "copyingData": {"$literal": True}},
            "operationType": {"$literal": "insert"},
            "documentKey": {"_id": "$_id"},
            "fullDocument": "$$ROOT",
            "ns": {
                "db": {"$literal": collection.database},
                "coll": {"$literal": collection.name},
            },
        }
        stages: list[dict[str, Any]] = [
            {"$match": {"$and": [later, up_to]} if later else up_to},
            {"$sort": {"_id": 1}},
            *settings.copy_pipeline(),
            {"$replaceRoot": {"newRoot": event}},
            *settings.pipeline(),
        ]
        with translated(URI):
            found = self.client[collection.database][collection.name]
            return list(found.aggregate(stages, allowDiskUse=settings.copy_allow_disk_use))

    def stream(self, position: EventPosition) -> Any:
        """Opens a change stream. Raises `StreamIsGone`, `Unavailable` or `DataError`."""
        settings = self._settings
        options: dict[str, Any] = {"max_await_time_ms": settings.await_ms}
        if position.token is not None:
            # Other than resume_after it goes on after a collection that was dropped.
            options["start_after" if position.is_ended else "resume_after"] = position.token
        else:
            options["start_at_operation_time"] = position.time
        if settings.batch_size:
            options["batch_size"] = settings.batch_size
        if settings.expanded_events:
            options["show_expanded_events"] = True
        full = settings.full_document or (
            "updateLookup" if settings.full_document_only else "default"
        )
        if full != "default":
            options["full_document"] = full
        if settings.full_document_before not in ("", "default"):
            options["full_document_before_change"] = settings.full_document_before
        if collation := settings.collation():
            options["collation"] = collation
        with translated(URI):
            return self._target().watch(settings.pipeline(), **options)

    def _target(self) -> Any:
        settings = self._settings
        if settings.collection:
            return self.client[settings.database][settings.collection]
        return self.client[settings.database] if settings.database else self.client


def _behind(after: Any) -> dict[str, Any]:
    return {"$expr": {"$gt": ["$_id", {"$literal": after}]}}
