"""Records of a JSON interface over HTTP, which is asked again and again.

    http.request.url=https://api.example/orders
    http.request.params=since=${offset.updated}&page=${page}
    http.response.list.pointer=/items
    http.response.record.offset.pointer=updated=/updated_at
    http.offset.initial=updated=2024-01-01T00:00:00Z

Each request is made of where the source was read to: of the values that the last record had at the
offset pointers, and of the page. So a request can be made again, and the records after the stored
offset are taken. Records that the server repeats because its `since` includes the last one are
skipped: those up to the last one whose offset is the stored one. An offset of several values, a
time and an id, is taken for that of one record only. An offset of a single value may be that of
several, such as a time: which of them were read is stored too, as digests of their keys, or of the
whole records if they have none. So one that appears later with the same time is not missed.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, urlencode

from odradek.connect.connectors.connector import SourceConnector, SourceTask
from odradek.connect.connectors.http_authorization import (
    Authorization,
    Fixed,
    OAuth2,
)
from odradek.connect.connectors.http_client import (
    Answer,
    HttpClient,
    basic,
    parse_url,
    tls_context,
)
from odradek.connect.connectors.http_source_settings import (
    VARIABLE,
    HttpSourceSettings,
    pairs,
)
from odradek.connect.connectors.positions import Positions, SourceOffset, SourcePartition
from odradek.connect.data import schemas
from odradek.connect.errors import DataError, Unavailable
from odradek.connect.records import SourceRecord
from odradek.world.clock import SystemClock

_NEXT: Final = re.compile(r'<([^>]*)>\s*;[^,]*\brel="?next"?')
_BUSY: Final = frozenset({408, 425, 429})
_DIGEST_LENGTH: Final = 12
_MOST_DIGESTS: Final = 10_000
URL: Final = "url"


class HttpSource(SourceConnector):
    settings_class: ClassVar = HttpSourceSettings

    def __init__(self, settings: HttpSourceSettings) -> None:
        self._settings = settings

    def task(self) -> "HttpSourceTask":
        return HttpSourceTask(self._settings)

    def check_offset(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if partition.keys() != {URL}:
            raise DataError(f'the partition of an HTTP source is {{"{URL}": ...}}')
        if offset is not None:
            State.of(offset, {}, None)


class State(NamedTuple):
    """How far the source was read. `since` are the values of which requests are made; `last` are
    those of the last record, which take their place when all pages are read. `taken` is how many
    records of the page were read. `polls` makes a difference where records have no offset.
    `since_read` and `last_read` are digests of the records with these values that were read; None
    if nobody has written them down, or if there is one such record only."""

    since: Mapping[str, Any]
    last: Mapping[str, Any]
    page: Any
    taken: int = 0
    polls: int = 0
    since_read: list[str] | None = None
    last_read: list[str] | None = None

    @classmethod
    def of(cls, offset: SourceOffset | None, initial: Mapping[str, Any], page: Any) -> "State":
        if offset is None:
            return cls(initial, initial, page, since_read=[], last_read=[])
        try:
            return cls(
                dict(offset["since"]), dict(offset["last"]), offset["page"],
                int(offset["taken"]), int(offset["polls"]),
                _digests(offset, "since_read"), _digests(offset, "last_read"),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            raise DataError(
                'the offset of an HTTP source has "since", "last", "page", "taken" and "polls"'
            ) from None

    @property
    def offset(self) -> dict[str, Any]:
        found = {name: value for name, value in self._asdict().items() if value is not None}
        return {**found, "page": self.page, "since": dict(self.since), "last": dict(self.last)}


def _digests(offset: SourceOffset, name: str) -> list[str] | None:
    found = offset.get(name)
    return None if found is None else [str(digest) for digest in found]


class _Page(NamedTuple):
    records: list[Any]
    next: Any


class HttpSourceTask(SourceTask):
    def __init__(self, settings: HttpSourceSettings) -> None:
        self._settings = settings
        self._offsets = pairs(settings.offset_pointers)
        self._initial = pairs(settings.initial)
        is_counted = settings.pagination == "number"
        self._first_page = settings.first_page if is_counted else None
        address = parse_url(VARIABLE.sub("", settings.url))
        context = None
        if address.is_tls:
            context = tls_context(settings, "http.", trusts_all=settings.trusts_all)
        timeout_s = settings.timeout_ms / 1000
        self._client = HttpClient([address], timeout_s=timeout_s, context=context)
        self._authorization = _authorization(settings, timeout_s)
        self._monotonic_s = SystemClock().monotonic_s
        self._next_poll_s = 0.0
        # The page that was asked for last, and the state it was asked in.
        self._asked: tuple[State, _Page] | None = None

    @property
    def partition(self) -> SourcePartition:
        return {URL: self._settings.url}

    def close(self) -> None:
        self._client.close()

    def reach(self, start: Positions, max_records: int) -> Positions:
        state = self._state(start)
        is_between_polls = state.page == self._first_page and state.taken == 0
        if is_between_polls and self._monotonic_s() < self._next_poll_s:
            return start
        page = self._page(state)
        count = min(self._left(state, page), max_records)
        end = self._after(state, page, count)
        if end.page == self._first_page and end.taken == 0:
            self._next_poll_s = self._monotonic_s() + self._settings.interval_ms / 1000
        if end == state:
            self._asked = None
            return start
        return start.with_offset(self.partition, end.offset)

    def read(self, start: Positions, end: Positions) -> Iterator[SourceRecord]:
        state, goal = self._state(start), self._state(end)
        if state == goal:
            return
        page = self._page(state)
        count = self._count(state, goal, page)
        for number in range(state.taken, state.taken + count):
            after = self._after(state, page, number + 1 - state.taken)
            yield self._record(page.records[number], after)

    def stored(self, positions: Positions) -> None:
        state = self._state(positions)
        if self._asked is not None and not _is_same_request(self._asked[0], state):
            self._asked = None

    def _count(self, state: State, goal: State, page: _Page) -> int:
        """Returns how many records there are between two states of one page."""
        for count in range(self._left(state, page) + 1):
            if self._after(state, page, count) == goal:
                return count
        raise DataError(
            f"{self._settings.url} does not give the same records again, which were read before"
        )

    @staticmethod
    def _left(state: State, page: _Page) -> int:
        """The page may be shorter than when it was read in part."""
        return max(0, len(page.records) - state.taken)

    def _state(self, positions: Positions) -> State:
        return State.of(positions.of(self.partition), self._initial, self._first_page)

    def _after(self, state: State, page: _Page, count: int) -> State:
        """Returns the state when so many more records of the page were read."""
        taken = state.taken + count
        last, read = state.last, state.last_read
        if count and self._offsets:
            last = self._offset_of(page.records[taken - 1])
            read = self._read_with(last, state, page.records[state.taken : taken])
        if taken < len(page.records):
            return state._replace(last=last, last_read=read, taken=taken)
        if page.next is not None:
            return state._replace(last=last, last_read=read, page=page.next, taken=0)
        polls = state.polls + (1 if count and not self._offsets else 0)
        return State(last, last, self._first_page, 0, polls, read, read)

    def _read_with(
        self, last: Mapping[str, Any], state: State, records: list[Any]
    ) -> list[str] | None:
        """Returns the digests of all records with the offset `last` that were read. `records` are
        those after `state`, and the last one of them has it."""
        if len(self._offsets) != 1:
            return None
        found = []
        for record in reversed(records):
            if self._offset_of(record) != last:
                break
            found.append(self._digest(record))
        if len(found) == len(records) and last == state.last:
            if state.last_read is None:
                return None
            found += reversed(state.last_read)
        if len(found) > _MOST_DIGESTS:
            (name,) = self._offsets
            raise DataError(
                f"more than {_MOST_DIGESTS:,} records have the offset {last[name]!r}: name what"
                " tells them apart beside it, as in http.response.record.offset.pointer="
                f"{name}={self._offsets[name]},id=/id"
            )
        return found[::-1]

    def _digest(self, record: Any) -> str:
        pointer = self._settings.key_pointer
        key = None if pointer is None else at(record, pointer)
        text = json.dumps(record if key is None else key, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]

    def _offset_of(self, record: Any) -> dict[str, Any]:
        found = {name: at(record, pointer) for name, pointer in self._offsets.items()}
        for name, value in found.items():
            if value is None or isinstance(value, dict | list):
                raise DataError(
                    f"a record has no text or number at {self._offsets[name]}, which is to be its"
                    " offset"
                )
        return found

    # Requests

    def _page(self, state: State) -> _Page:
        if self._asked is not None and _is_same_request(self._asked[0], state):
            return self._asked[1]
        answer = self._ask(state)
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise DataError(f"{self._settings.url} does not answer with JSON") from None
        records = at(found, self._settings.list_pointer)
        if records is None:
            records = []
        if not isinstance(records, list):
            records = [records]
        page = _Page(self._unseen(state, records), self._next(state, found, answer, records))
        self._asked = state, page
        return page

    def _unseen(self, state: State, records: list[Any]) -> list[Any]:
        """Leaves out the records up to the one that was read last, if the server repeats it."""
        read = state.since_read
        if not self._offsets or (state.since == self._initial and not read):
            return records
        repeated = [
            number
            for number, record in enumerate(records)
            if self._offset_of(record) == state.since
        ]
        if not repeated:
            return records
        behind = records[repeated[-1] + 1 :]
        if read is None:
            return behind
        known = set(read)
        late = [records[at] for at in repeated if self._digest(records[at]) not in known]
        return [*late, *behind]

    def _next(self, state: State, found: Any, answer: Answer, records: list[Any]) -> Any:
        match self._settings.pagination:
            case "cursor":
                token = at(found, self._settings.page_pointer)
                # A cursor or link that stays the same is the end too.
                return None if token in (None, "", False) or token == state.page else token
            case "link":
                links = [text for name, text in answer.headers.items() if name.lower() == "link"]
                match = _NEXT.search(", ".join(links))
                return None if match is None or match[1] == state.page else match[1]
            case "number":
                return state.page + 1 if records else None
        return None

    def _ask(self, state: State) -> Answer:
        has_renewed = False
        while True:
            headers = {"Accept": "application/json", **self._headers(state)}
            headers |= self._authorization.headers()
            body = None
            if self._settings.body is not None:
                body = self._filled(self._settings.body, state).encode()
            method = self._settings.method.upper()
            answer = self._client.send(method, self._target(state), body, headers)
            if answer.status == 401 and not has_renewed and self._authorization.renew():
                has_renewed = True
                continue
            said = f"{self._client.address.origin}: HTTP {answer.status}: {answer.text}"
            if answer.status in _BUSY or answer.status >= 500:
                raise Unavailable(said)
            if answer.status >= 300:
                raise DataError(said)
            return answer

    def _target(self, state: State) -> str:
        origin = self._client.address.origin
        page = state.page
        if isinstance(page, str) and page.startswith(("http://", "https://", "/")):
            # The log-in is for one server: a page that is elsewhere does not get it.
            if not page.startswith("/"):
                address = parse_url(page)
                if address.origin != origin:
                    raise DataError(f"the next page is at {address.origin}, and not at {origin}")
                page = address.target
            return page
        target = parse_url(self._filled(self._settings.url, state, is_quoted=True)).target
        query = self._query(state)
        if not query:
            return target or "/"
        return f"{target or '/'}{'&' if '?' in target else '?'}{query}"

    def _query(self, state: State) -> str:
        variables = self._variables(state)
        given: list[tuple[str, str]] = []
        for part in filter(None, self._settings.params.split("&")):
            name, _, text = part.partition("=")
            if all(variables.get(found) is not None for found in VARIABLE.findall(text)):
                given.append((name, self._filled(text, state)))
        return urlencode(given)

    def _headers(self, state: State) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in filter(None, self._settings.headers.split(",")):
            name, _, text = part.partition(":")
            found[name.strip()] = self._filled(text.strip(), state)
        return found

    def _variables(self, state: State) -> dict[str, Any]:
        return {
            **{f"offset.{name}": state.since.get(name) for name in self._offsets},
            "page": state.page,
        }

    def _filled(self, text: str, state: State, *, is_quoted: bool = False) -> str:
        variables = self._variables(state)

        def value(match: "re.Match[str]") -> str:
            found = variables.get(match[1])
            shown = "" if found is None else str(found)
            return quote(shown, safe="") if is_quoted else shown

        return VARIABLE.sub(value, text)

    def _record(self, found: Any, after: State) -> SourceRecord:
        settings = self._settings
        key = None if settings.key_pointer is None else at(found, settings.key_pointer)
        is_text = isinstance(key, str)
        return SourceRecord(
            settings.topic,
            key=key,
            value=found,
            key_schema=schemas.STRING if is_text else None,
            timestamp_ms=self._timestamp_ms(found),
            source_partition=self.partition,
            source_offset=after.offset,
        )

    def _timestamp_ms(self, found: Any) -> int | None:
        pointer = self._settings.timestamp_pointer
        value = None if pointer is None else at(found, pointer)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            raise DataError(f"a record's time at {pointer} is {value!r:.60}") from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _is_same_request(one: State, other: State) -> bool:
    return (one.since, one.since_read, one.page, one.polls) == (
        other.since, other.since_read, other.page, other.polls
    )  # fmt: skip


def at(found: Any, pointer: str) -> Any:
    """Returns what is at a JSON pointer; None if there is nothing."""
    for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _authorization(settings: HttpSourceSettings, timeout_s: float) -> Authorization:
    match settings.auth_type:
        case "basic":
            return Fixed(basic(f"{settings.auth_user}:{settings.auth_password or ''}"))
        case "bearer":
            return Fixed(f"Bearer {settings.auth_token or ''}")
        case "oauth2":
            return OAuth2(settings, timeout_s)
    return Fixed(None)
