"""What the connector asks of MongoDB: change streams, and documents in the order of their keys."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bson.timestamp import Timestamp

from odradek.connect.connectors.mongodb.positions import StreamPosition
from odradek.connect.connectors.mongodb.records import OPERATIONS, Collection
from odradek.connect.connectors.mongodb.settings import MongoDbSettings
from odradek.connect.errors import DataError, Unavailable

try:
    import pymongo
    from pymongo import errors
except ModuleNotFoundError as missing:  # pragma: no cover - the extra is installed in tests
    from odradek.connect.errors import InvalidConfig
    from odradek.world.installing import install_line

    raise InvalidConfig(
        f"the connector for MongoDB needs the package pymongo: {install_line('mongodb')}"
    ) from missing

_HISTORY_LOST: Final = frozenset({136, 280, 286})
_REFUSED: Final = {13: "the user has no rights to it", 18: "the user or the password is wrong"}
_NO_REPLICA_SET: Final = 40573
_BUILT_IN: Final = frozenset({"admin", "config", "local"})
_LONGEST_WAIT_MS: Final = 500


class StreamIsGone(DataError):
    """The servers have forgotten the changes from the stored position on."""


class MongoServers(ABC):
    """A client, which makes connections when they are needed and again after a loss."""

    def __init__(self) -> None:
        self._client: pymongo.MongoClient[dict[str, Any]] | None = None

    @abstractmethod
    def _connected(self) -> "pymongo.MongoClient[dict[str, Any]]": ...

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def client(self) -> "pymongo.MongoClient[dict[str, Any]]":
        if self._client is None:
            self._client = self._connected()
        return self._client

    def check(self) -> None:
        """Raises `Unavailable` or `DataError` if the servers do not answer or refuse the user."""
        with translated():
            self.client.admin.command("ping")

    def now(self) -> StreamPosition:
        """Returns the position after everything that has been written."""
        with translated():
            found = self.client.admin.command("ping").get("operationTime")
        if not isinstance(found, Timestamp):
            raise DataError(
                "the server has no change streams: it must be a member of a replica set, or a"
                " mongos"
            )
        return StreamPosition(Timestamp(found.time, found.inc + 1))

    def collections(self) -> list[Collection]:
        with translated():
            return [
                Collection(database, name)
                for database in self.client.list_database_names()
                if database not in _BUILT_IN
                for name in self.client[database].list_collection_names(
                    filter={"type": "collection"}
                )
                if not name.startswith("system.")
            ]

    def documents(
        self, collection: Collection, after: Any, has_after: bool, count: int
    ) -> list[dict[str, Any]]:
        """Returns the next documents in the order of their keys, whatever types those have."""
        condition = {"$expr": {"$gt": ["$_id", {"$literal": after}]}} if has_after else {}
        with translated():
            found = self.client[collection.database][collection.name]
            return list(found.find(condition).sort("_id", 1).limit(count))


class MongoSource(MongoServers):
    """The servers of the connector with Debezium's settings."""

    def __init__(self, settings: MongoDbSettings) -> None:
        super().__init__()
        self._settings = settings

    def _connected(self) -> "pymongo.MongoClient[dict[str, Any]]":
        settings = self._settings
        options: dict[str, Any] = {
            "connectTimeoutMS": settings.connect_timeout_ms,
            "serverSelectionTimeoutMS": settings.server_selection_timeout_ms,
            "appname": f"odradek {settings.topic_prefix}",
            "datetime_conversion": "DATETIME_MS",  # Dates may be beyond Python's.
        }
        if settings.user:
            options |= {
                "username": settings.user,
                "password": settings.password or "",
                "authSource": settings.auth_source,
            }
        if settings.ssl_enabled:
            options |= {"tls": True}
            if settings.ssl_invalid_hostname_allowed:
                options |= {"tlsAllowInvalidHostnames": True}
            if settings.ssl_truststore:
                options |= {"tlsCAFile": settings.ssl_truststore}
            if settings.ssl_keystore:
                options |= {"tlsCertificateKeyFile": settings.ssl_keystore}
        with translated():
            return pymongo.MongoClient(settings.connection_string, **options)

    def stream(self, position: StreamPosition) -> Any:
        """Opens a change stream. Raises `StreamIsGone`, `Unavailable` or `DataError`."""
        settings = self._settings
        options: dict[str, Any] = {"max_await_time_ms": self._await_ms()}
        if position.token is not None:
            options["resume_after"] = position.token
        else:
            options["start_at_operation_time"] = position.time
        if "update_full" in settings.capture_mode:
            is_kept = settings.capture_mode_full_update_type == "post_image"
            options["full_document"] = "whenAvailable" if is_kept else "updateLookup"
        if "pre_image" in settings.capture_mode:
            options["full_document_before_change"] = "whenAvailable"
        kinds = [*OPERATIONS, "invalidate"]
        pipeline = [{"$match": {"operationType": {"$in": kinds}}}, *settings.pipeline()]
        with translated():
            return self._target().watch(pipeline, **options)

    def _target(self) -> Any:
        database, _, name = self._settings.capture_target.partition(".")
        match self._settings.capture_scope:
            case "database":
                return self.client[database]
            case "collection":
                return self.client[database][name]
        return self.client

    def _await_ms(self) -> int:
        wanted = self._settings.cursor_max_await_time_ms or self._settings.poll_interval_ms
        return min(wanted, _LONGEST_WAIT_MS)


def collection_of(change: Mapping[str, Any], settings: MongoDbSettings) -> Collection:
    found = change.get("ns")
    if found is None:
        database, _, name = settings.capture_target.partition(".")
        return Collection(database, name)
    return Collection(found["db"], found["coll"])


@contextmanager
def translated(
    setting: str = "mongodb.connection.string",
    passes: type[errors.PyMongoError] | tuple[()] = (),
) -> Iterator[None]:
    """Says what an error of PyMongo means here: to try again, or to correct something. `setting`
    has the servers; who calls handles the errors `passes`."""
    try:
        yield
    except passes:
        raise
    except errors.OperationFailure as error:
        raise _of_failure(error) from error
    except (errors.ConfigurationError, errors.InvalidURI) as error:
        raise DataError(f"{setting}: {error}") from error
    except errors.PyMongoError as error:
        raise Unavailable(f"MongoDB does not answer: {str(error)[:300]}") from error


def _of_failure(error: "errors.OperationFailure") -> DataError | Unavailable:
    said = str(error).partition(", full error")[0]
    if error.code in _HISTORY_LOST:
        return StreamIsGone(
            f"MongoDB has no changes any more from where this connector was: {said}. Set"
            " snapshot.mode=when_needed to read all documents again, and let the servers keep"
            " more of their oplog (storage.oplogMinRetentionHours)"
        )
    if error.code == _NO_REPLICA_SET:
        return DataError(f"{said}: start the server with --replSet, and call rs.initiate()")
    if error.code in _REFUSED:
        return DataError(
            f"MongoDB refuses this: {_REFUSED[error.code]} ({said}). The role `readAnyDatabase` in"
            " admin, or `read` in the captured databases, is what the connector needs"
        )
    if error.has_error_label("RetryableChangeStreamError") or error.timeout:
        return Unavailable(f"MongoDB does not answer: {said}")
    return DataError(f"MongoDB: {said}")
