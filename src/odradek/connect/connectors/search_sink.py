"""Documents in OpenSearch or Elasticsearch, by their bulk interface.

It takes the place of Aiven's OpenSearch connector and of Confluent's and Aiven's Elasticsearch
connectors. With keys as ids it is idempotent: a document's version is the offset of its record, and
the server refuses an older one. With the ids `topic+partition+offset` a record that comes again
writes the same document again.

A document that the server has no room for now (429, 503) is sent again, together with later
changes of the same document, so that they stay in their order.
"""

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

from odradek.connect.connectors.connector import FailedRecord, SinkConnector, SinkTask
from odradek.connect.connectors.http_client import (
    Answer,
    HttpClient,
    basic,
    parse_url,
    tls_context,
)
from odradek.connect.connectors.search_documents import Documents, mapping_of
from odradek.connect.connectors.search_settings import (
    ElasticsearchSinkSettings,
    SearchSinkSettings,
)
from odradek.connect.data.schemas import Schema, Type
from odradek.connect.errors import ConnectError, DataError, Unavailable
from odradek.connect.records import SinkRecord

_log = logging.getLogger("odradek.connect")
_BUSY: Final = frozenset({429, 502, 503, 504})
_CONFLICT: Final = 409
_NDJSON: Final = {"Content-Type": "application/x-ndjson"}
_JSON: Final = {"Content-Type": "application/json"}
# An index that is read-only because the disk is full, or that is being moved.
_BLOCKED: Final = "cluster_block_exception"


class SearchSink(SinkConnector):
    settings_class: ClassVar = SearchSinkSettings

    def __init__(self, settings: SearchSinkSettings) -> None:
        self._settings = settings

    def task(self) -> "SearchSinkTask":
        return SearchSinkTask(self._settings)

    def wrong_outside(self) -> dict[str, list[str]]:
        task = self.task()
        try:
            task.check()
        except ConnectError as error:
            return {"connection.url": [str(error)]}
        finally:
            task.close()
        return {}


class ElasticsearchSink(SearchSink):
    settings_class: ClassVar = ElasticsearchSinkSettings


class _Item(NamedTuple):
    record: SinkRecord
    lines: list[bytes]

    @property
    def size(self) -> int:
        return sum(len(line) + 1 for line in self.lines)

    @property
    def document(self) -> bytes:
        """The action, without what differs between changes of a document."""
        action = json.loads(self.lines[0])
        (about,) = action.values()
        return f"{about['_index']}/{about.get('_id')}".encode()


class SearchSinkTask(SinkTask):
    def __init__(self, settings: SearchSinkSettings) -> None:
        self._settings = settings
        self._documents = Documents(settings)
        self._ready: set[str] = set()
        self._closed = threading.Event()
        addresses = [parse_url(url) for url in settings.connection_url]
        headers = {}
        if settings.connection_username is not None:
            credentials = f"{settings.connection_username}:{settings.connection_password}"
            headers["Authorization"] = basic(credentials)
        context = None
        if any(address.is_tls for address in addresses):
            context = tls_context(settings, "connection.", trusts_all=settings.trusts_all)
        self._client = HttpClient(
            addresses,
            timeout_s=settings.read_timeout_ms / 1000,
            connect_timeout_s=settings.connection_timeout_ms / 1000,
            context=context,
            headers=headers,
        )

    def check(self) -> None:
        """Raises `ConnectError` if the server does not answer, or not to us."""
        self._expect(self._ask("GET", "/"), "it does not answer as a search server")

    def close(self) -> None:
        self._closed.set()
        self._client.close()

    def write(self, records: Sequence[SinkRecord]) -> Sequence[FailedRecord]:
        failed: list[FailedRecord] = []
        items: list[_Item] = []
        for record in records:
            try:
                lines = self._documents.operation(record)
            except DataError as error:
                if not self._settings.drop_invalid_message:
                    failed.append(FailedRecord(record, error))
                continue
            if lines is not None:
                self._prepare(record)
                items.append(_Item(record, lines))
        for batch in self._batches(items):
            failed += self._write(batch)
        return failed

    def _batches(self, items: list[_Item]) -> list[list[_Item]]:
        limit = self._settings.bulk_size_bytes
        batches: list[list[_Item]] = []
        size = 0
        for item in items:
            size += item.size
            is_full = batches and len(batches[-1]) >= self._settings.batch_size
            if not batches or is_full or (limit > 0 and size > limit):
                batches.append([])
                size = item.size
            batches[-1].append(item)
        return batches

    # A bulk request

    def _write(self, items: list[_Item]) -> list[FailedRecord]:
        failed: list[FailedRecord] = []
        reason = ""
        for attempt in range(self._settings.max_retries + 1):
            if attempt and self._closed.wait(self._backoff_s(attempt)):
                break
            try:
                items, reason, refused = self._try(items)
            except Unavailable as error:
                if attempt == self._settings.max_retries:
                    raise
                reason = str(error)
                continue
            failed += refused
            if not items:
                return failed
        raise Unavailable(f"{len(items)} documents were not taken: {reason}")

    def _backoff_s(self, attempt: int) -> float:
        return min(float(self._settings.retry_backoff_ms * 2 ** (attempt - 1)), 60_000.0) / 1000

    def _try(self, items: list[_Item]) -> tuple[list[_Item], str, list[FailedRecord]]:
        """Returns the items to send again, why, and those that were refused."""
        body = b"\n".join(line for item in items for line in item.lines) + b"\n"
        answer = self._ask("POST", "/_bulk", body, _NDJSON)
        found = self._expect(answer, "a bulk request was refused")
        if not found.get("errors"):
            return [], "", []
        again: list[_Item] = []
        blocked: set[bytes] = set()
        failed: list[FailedRecord] = []
        reason, conflicts = "", 0
        for item, outcome in zip(items, found["items"], strict=True):
            (result,) = outcome.values()
            status, error = int(result.get("status", 500)), result.get("error") or {}
            if status in _BUSY or error.get("type") == _BLOCKED or item.document in blocked:
                again.append(item)
                blocked.add(item.document)
                reason = reason or _explained(status, error)
            elif status == _CONFLICT:
                conflicts += 1
                self._conflict(item, error, failed)
            elif status >= 400 and not ("delete" in outcome and status == 404):
                self._malformed(item, status, error, failed)
        if conflicts:
            _log.info("%d documents were there in a newer version already", conflicts)
        return again, reason, failed

    def _conflict(self, item: _Item, error: Any, failed: list[FailedRecord]) -> None:
        # A document of a data stream is created once: it is this record's, from before a restart.
        behaviour = self._settings.behavior_on_version_conflict
        if not self._settings.is_data_stream:
            self._behave(behaviour, item, _CONFLICT, error, failed)

    def _malformed(self, item: _Item, status: int, error: Any, failed: list[FailedRecord]) -> None:
        if status in {401, 403}:
            raise DataError(f"the search server does not allow it: {_explained(status, error)}")
        self._behave(self._settings.behavior_on_malformed_documents, item, status, error, failed)

    def _behave(
        self, behaviour: str, item: _Item, status: int, error: Any, failed: list[FailedRecord]
    ) -> None:
        record = item.record
        explained = _explained(status, error)
        if behaviour == "warn":
            _log.warning(
                "the record at %s-%d@%d is skipped: %s",
                record.original_topic, record.original_partition, record.offset, explained,
            )  # fmt: skip
        elif behaviour != "ignore":
            failed.append(FailedRecord(record, DataError(f"the document is refused: {explained}")))

    # Indexes and data streams

    def _prepare(self, record: SinkRecord) -> None:
        """Makes the index of a record, with a mapping of its schema, or the data stream, if there
        is none."""
        place = self._documents.place(record.topic)
        if place in self._ready or record.value is None:
            return
        if not self._documents.is_external(record.topic):
            if self._settings.is_data_stream:
                self._prepare_stream(place)
            else:
                self._prepare_index(place, record)
        self._ready.add(place)

    def _prepare_index(self, index: str, record: SinkRecord) -> None:
        if self._ask("HEAD", f"/{index}").status == 200:
            return
        body: dict[str, Any] = {}
        schema: Schema | None = record.value_schema
        uses = schema is not None and schema.type is Type.STRUCT
        if uses and schema is not None and self._documents.uses_schema(record.topic):
            compacts = self._settings.compact_map_entries
            body = {"mappings": mapping_of(schema, compacts_maps=compacts)}
        self._make(f"/{index}", body, f"index {index}")

    def _prepare_stream(self, stream: str) -> None:
        if self._ask("GET", f"/_data_stream/{stream}").status == 200:
            return
        answer = self._ask("PUT", f"/_data_stream/{stream}")
        if answer.status == 400 and "template" in answer.text:
            template = {"index_patterns": [stream], "data_stream": {}, "priority": 500}
            self._make(f"/_index_template/{stream}-template", template, f"template for {stream}")
            answer = self._ask("PUT", f"/_data_stream/{stream}")
        if answer.status >= 400 and "already_exists" not in answer.text:
            self._expect(answer, f"data stream {stream} cannot be made")

    def _make(self, target: str, body: dict[str, Any], what: str) -> None:
        answer = self._ask("PUT", target, json.dumps(body).encode(), _JSON)
        # Another task may have made it in the meantime.
        if not (answer.status == 400 and "already_exists" in answer.text):
            self._expect(answer, f"{what} cannot be made")

    # Requests

    def _ask(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        path = self._client.address.target.rstrip("/")
        answer = self._client.send(method, path + target, body, headers)
        if answer.status in _BUSY:
            raise Unavailable(f"the search server is busy: HTTP {answer.status}: {answer.text}")
        return answer

    @staticmethod
    def _expect(answer: Answer, otherwise: str) -> dict[str, Any]:
        if answer.status in {401, 403}:
            raise DataError(
                f"{otherwise}: HTTP {answer.status}; check connection.username and"
                " connection.password, and what that user may do"
            )
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if answer.status >= 300 or not isinstance(found, dict):
            raise DataError(f"{otherwise}: HTTP {answer.status}: {answer.text}")
        return found


def _explained(status: int, error: Any) -> str:
    if not isinstance(error, dict):
        return f"{status}: {error}"
    cause = error.get("caused_by") or {}
    inner = f" ({cause['reason']})" if isinstance(cause, dict) and cause.get("reason") else ""
    return f"{status} {error.get('type')}: {error.get('reason')}{inner}"
