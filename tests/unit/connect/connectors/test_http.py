"""The HTTP source and sink, with servers that page, are busy, repeat and refuse."""

import json
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from odradek.connect import plugins
from odradek.connect.connectors.connector import SinkTask, SourceTask
from odradek.connect.connectors.positions import Positions
from odradek.connect.data import schemas
from odradek.connect.data.schemas import Field
from odradek.connect.errors import DataError, InvalidConfig, Unavailable
from odradek.connect.records import SinkRecord, SourceRecord
from tests.unit.connect.connectors.json_server import JsonServer, Request, Response

SOURCE = "odradek.connect.HttpSourceConnector"
SINK = "io.aiven.kafka.connect.http.HttpSinkConnector"


def task(name: str, options: dict[str, str]) -> Any:
    plugin = plugins.find_connector(name)
    return plugin.load()(plugin.settings_class.read(options)).task()


def source(url: str, **options: str) -> SourceTask:
    given = {"http.request.url": url, "kafka.topic": "t", "http.timer.interval.millis": "1"}
    made: SourceTask = task(SOURCE, given | {k.replace("_", "."): v for k, v in options.items()})
    return made


def drain(
    made: SourceTask, start: Positions, enough: Callable[[list[SourceRecord]], bool]
) -> tuple[Positions, list[SourceRecord]]:
    """Reads as the engine does, until there is enough."""
    found: list[SourceRecord] = []
    for _ in range(2000):
        end = made.reach(start, 3)
        records = list(made.read(start, end))
        if records:
            (offset,) = [offset for _, offset in end]
            assert records[-1].source_offset == offset or offset["taken"] == 0
        found += records
        made.stored(end)
        start = end
        if enough(found):
            return start, found
    raise AssertionError(f"only {len(found)} records came")


def values(records: list[SourceRecord]) -> list[Any]:
    return [record.value for record in records]


def orders(request: Request, rows: list[dict[str, Any]]) -> Response:
    """An interface that gives rows from `since` on, with the row of `since`, two a page."""
    since = int(request.query.get("since", "0"))
    rows = [row for row in rows if row["id"] >= since]
    begin = int(request.query.get("cursor", "0"))
    page = rows[begin : begin + 2]
    following = str(begin + 2) if begin + 2 < len(rows) else None
    return Response(body={"items": page, "meta": {"next": following}})


CURSORS = {
    "http.request.params": "since=${offset.id}&cursor=${page}",
    "http.response.list.pointer": "/items",
    "http.response.record.offset.pointer": "id=/id",
    "http.response.record.key.pointer": "/name",
    "http.pagination": "cursor",
    "http.pagination.pointer": "/meta/next",
}


def test_pages_are_followed_and_new_rows_come_once() -> None:
    rows = [{"id": number, "name": f"n{number}"} for number in range(1, 8)]
    with JsonServer(lambda request: orders(request, rows)) as server:
        with closing(source(f"{server.url}/orders", **CURSORS)) as made:
            end, found = drain(made, Positions(), lambda found: len(found) >= 7)
        assert values(found) == rows
        assert [record.key for record in found] == [row["name"] for row in rows]
        rows += [{"id": 8, "name": "n8"}, {"id": 9, "name": "n9"}]
        with closing(source(f"{server.url}/orders", **CURSORS)) as made:
            # A task that starts again goes on behind what was stored, in whatever page that was.
            _, more = drain(made, end, lambda found: len(found) >= 2)
        assert values(more) == rows[7:]
        assert server.requests[-1].query["since"] in {"7", "9"}


def test_a_range_can_be_read_again_by_another_task() -> None:
    rows = [{"id": number, "name": "n"} for number in range(1, 6)]
    with JsonServer(lambda request: orders(request, rows)) as server:
        url = f"{server.url}/orders"
        with closing(source(url, **CURSORS)) as made:
            middle = made.reach(Positions(), 1)
            end = made.reach(middle, 10)
            first = list(made.read(middle, end))
        with closing(source(url, **CURSORS)) as again:
            assert list(again.read(middle, end)) == first
            assert values(first) == [{"id": 2, "name": "n"}]
        rows.clear()
        with (
            closing(source(url, **CURSORS)) as gone,
            pytest.raises(DataError, match="the same records again"),
        ):
            list(gone.read(middle, end))


def test_a_page_that_has_become_shorter_is_passed() -> None:
    rows = [{"id": number} for number in range(5)]
    options = {"http.response.record.offset.pointer": "id=/id"}
    with JsonServer(lambda _: Response(body=list(rows))) as server:
        with closing(source(server.url, **options)) as made:
            middle = made.reach(Positions(), 3)
        rows[:] = [{"id": 9}]
        with closing(source(server.url, **options)) as made:
            _, found = drain(made, middle, lambda found: len(found) >= 1)
        assert values(found) == [{"id": 9}]


def test_records_of_the_same_time_are_told_apart_by_their_ids() -> None:
    rows = [{"id": 1, "at": "t5"}]
    options = {
        "http.request.params": "since=${offset.at}",
        "http.response.record.offset.pointer": "at=/at,id=/id",
    }
    with JsonServer(lambda _: Response(body=list(rows))) as server:
        with closing(source(server.url, **options)) as made:
            start, _ = drain(made, Positions(), lambda found: len(found) >= 1)
            rows += [{"id": 2, "at": "t5"}]
            _, found = drain(made, start, lambda found: len(found) >= 1)
        assert values(found) == rows[1:]


@pytest.mark.parametrize("key", [{}, {"http.response.record.key.pointer": "/id"}])
def test_a_record_that_appears_late_with_the_same_time_is_not_missed(key: dict[str, str]) -> None:
    rows = [{"id": 1, "at": "t5"}, {"id": 2, "at": "t5"}]
    options = {
        "http.request.params": "since=${offset.at}",
        "http.response.record.offset.pointer": "at=/at",
        **key,
    }

    def answer(request: Request) -> Response:
        return Response(body=[row for row in rows if row["at"] >= request.query.get("since", "")])  # type: ignore[operator]

    with JsonServer(answer) as server:
        with closing(source(server.url, **options)) as made:
            start, found = drain(made, Positions(), lambda found: len(found) >= 2)
            assert values(found) == rows
            rows.insert(0, {"id": 3, "at": "t5"})
            start, found = drain(made, start, lambda found: len(found) >= 1)
            assert values(found) == rows[:1]
        rows += [{"id": 4, "at": "t5"}, {"id": 5, "at": "t6"}]
        with closing(source(server.url, **options)) as made:
            # Another task knows what was read, and reads every other record once.
            start, found = drain(made, start, lambda found: len(found) >= 2)
            assert values(found) == rows[-2:]
            polls = len(server.requests)
            end, found = drain(made, start, lambda _: len(server.requests) > polls)
    assert (end, found) == (start, [])


def test_an_offset_without_digests_passes_all_records_of_its_time() -> None:
    """As older versions have written it, and as users set it."""
    rows = [{"id": 1, "at": "t5"}, {"id": 2, "at": "t5"}, {"id": 3, "at": "t6"}]
    options = {"http.response.record.offset.pointer": "at=/at"}
    with JsonServer(lambda _: Response(body=list(rows))) as server:
        at = {"at": "t5"}
        offset = {"since": at, "last": at, "page": None, "taken": 0, "polls": 0}
        start = Positions().with_offset({"url": server.url}, offset)
        with closing(source(server.url, **options)) as made:
            _, found = drain(made, start, lambda found: len(found) >= 1)
    assert values(found) == rows[2:]


def test_links_and_numbers_lead_to_the_next_page() -> None:
    def answer(request: Request) -> Response:
        page = int(request.query.get("page", "1"))
        headers = {}
        if page < 3:
            headers["Link"] = f'<{server.url}/list?page={page + 1}>; rel="next"'
        return Response(body=[page] if page < 4 else [], headers=headers)

    with JsonServer(answer) as server:
        for pagination, params in (("link", ""), ("number", "page=${page}")):
            options = {"http.pagination": pagination, "http.request.params": params}
            with closing(source(f"{server.url}/list", **options)) as made:
                _, found = drain(made, Positions(), lambda found: len(found) >= 3)
            assert values(found)[:3] == [1, 2, 3]


def test_a_page_on_another_server_is_not_asked_for() -> None:
    link = {"Link": '<http://127.0.0.2:9/x>; rel="next"'}
    with JsonServer(lambda _: Response(body=[1], headers=link)) as server:
        made = source(server.url, **{"http.pagination": "link"})
        end = made.reach(Positions(), 10)
        with closing(made), pytest.raises(DataError, match="the next page is at"):
            made.reach(end, 10)


def test_without_offsets_each_poll_gives_everything() -> None:
    with JsonServer(lambda _: Response(body={"t": 20.5})) as server:
        with closing(source(server.url)) as made:
            _, found = drain(made, Positions(), lambda found: len(found) >= 3)
        assert values(found) == [{"t": 20.5}] * 3


def test_it_waits_between_polls() -> None:
    with JsonServer(lambda _: Response(body=[])) as server:
        with closing(source(server.url, **{"http.timer.interval.millis": "60000"})) as made:
            for _ in range(5):
                assert made.reach(Positions(), 10) == Positions()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(503, Unavailable), (429, Unavailable), (404, DataError)]
)
def test_errors_of_the_server(status: int, error: type[Exception]) -> None:
    with (
        JsonServer(lambda _: Response(status, {"why": "tired"})) as server,
        closing(source(server.url)) as made,
        pytest.raises(error, match="tired"),
    ):
        made.reach(Positions(), 10)


def test_tokens_are_asked_for_and_renewed() -> None:
    tokens = iter(["one", "two", "three"])

    def answer(request: Request) -> Response:
        if request.path == "/token":
            assert request.body == b"grant_type=client_credentials&scope=read"
            return Response(body={"access_token": next(tokens)})
        good = request.headers["authorization"] == "Bearer two"
        return Response(200 if good else 401, [1])

    with JsonServer(answer) as server:
        options = {
            "http.auth.type": "oauth2",
            "oauth2.access.token.url": f"{server.url}/token",
            "oauth2.client.id": "ada",
            "oauth2.client.secret": "s3cret",
            "oauth2.client.scope": "read",
        }
        with closing(source(server.url, **options)) as made:
            assert made.reach(Positions(), 10) != Positions()
        token = next(request for request in server.requests if request.path == "/token")
        assert token.headers["authorization"] == "Basic YWRhOnMzY3JldA=="


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http.request.url": "nonsense"}, "not a URL"),
        ({"http.request.params": "a=${offset.id}"}, "is not one of page"),
        ({"http.response.record.offset.pointer": "/id"}, "not like name=value"),
        ({"http.auth.type": "oauth2"}, "needs it"),
    ],
)
def test_wrong_settings_of_the_source(options: dict[str, str], message: str) -> None:
    given = {"http.request.url": "http://localhost", "kafka.topic": "t", **options}
    with pytest.raises(InvalidConfig, match=message):
        plugins.find_connector(SOURCE).settings_class.read(given)


# The sink


def sink(url: str, **options: str) -> SinkTask:
    given = {"http.url": url, "http.authorization.type": "none", "retry.backoff.ms": "1"}
    made: SinkTask = task(SINK, given | {k.replace("_", "."): v for k, v in options.items()})
    return made


def record(value: Any, schema: Any = None, offset: int = 0) -> SinkRecord:
    return SinkRecord("t", value=value, value_schema=schema, offset=offset)


def test_each_record_is_a_request() -> None:
    schema = schemas.struct(Field("id", schemas.INT32), Field("price", schemas.decimal(2)))
    with JsonServer(lambda _: Response()) as server:
        options = {
            "http.headers.additional": "X-From:odradek,X-Two:b",
            "http.headers.content.type": "application/json",
            "http.authorization.type": "static",
            "http.headers.authorization": "Bearer x",
        }
        with closing(sink(f"{server.url}/in?a=1", **options)) as made:
            values = [record("text"), record({"id": 1, "price": Decimal("1.50")}, schema)]
            assert not made.write([*values, record(b"raw"), record({"a": [1]})])
        bodies = [request.body for request in server.requests]
        assert bodies == [b"text", b'{"id":1,"price":1.50}', b"raw", b'{"a":[1]}']
        first = server.requests[0]
        assert (first.method, first.path, first.query) == ("POST", "/in", {"a": "1"})
        assert first.headers["x-from"] == "odradek"
        assert first.headers["authorization"] == "Bearer x"


def test_batches() -> None:
    with JsonServer(lambda _: Response()) as server:
        options = {
            "batching.enabled": "true", "batch.max.size": "2", "batch.prefix": "[",
            "batch.suffix": "]", "batch.separator": ",",
        }  # fmt: skip
        with closing(sink(server.url, **options)) as made:
            assert not made.write([record({"n": n}) for n in range(3)])
        found = [json.loads(request.body) for request in server.requests]
        assert found == [[{"n": 0}, {"n": 1}], [{"n": 2}]]


def test_what_is_refused_fails_and_what_is_busy_is_sent_again() -> None:
    statuses = iter([200, 400, 503, 200, 200])
    with JsonServer(lambda _: Response(next(statuses), {"why": "bad"})) as server:
        with closing(sink(server.url)) as made:
            failed = made.write([record(str(n), offset=n) for n in range(4)] + [record(None)])
        assert [one.record.offset for one in failed if one.record.value] == [1]
        assert "HTTP 400" in str(failed[-1].error)
        assert "has no value" in str(failed[0].error)
        assert [request.body for request in server.requests] == [b"0", b"1", b"2", b"2", b"3"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_log_in_fails_the_task_and_no_record(status: int) -> None:
    with (
        JsonServer(lambda _: Response(status, {"why": "who are you?"})) as server,
        closing(sink(server.url)) as made,
        pytest.raises(DataError, match="does not let us in"),
    ):
        made.write([record("x")])


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with closing(sink("http://127.0.0.1:1")) as made, pytest.raises(Unavailable):
        made.write([record("x")])


def test_a_token_of_the_sink_is_renewed() -> None:
    tokens = iter(["one", "two"])

    def answer(request: Request) -> Response:
        if request.path == "/token":
            assert b"client_id=ada&client_secret=s3cret" in request.body
            return Response(body={"access_token": next(tokens)})
        return Response(200 if request.headers["authorization"] == "Bearer two" else 401)

    with JsonServer(answer) as server:
        options = {
            "http.authorization.type": "oauth2",
            "oauth2.access.token.url": f"{server.url}/token",
            "oauth2.client.id": "ada",
            "oauth2.client.secret": "s3cret",
            "oauth2.client.authorization.mode": "url",
        }
        with closing(sink(server.url, **options)) as made:
            assert not made.write([record("x")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"http.url": "x"}, "not a URL"),
        ({"http.authorization.type": "static"}, "needs it"),
        ({"http.authorization.type": "kerberos"}, "none, static, oauth2"),
        ({"http.proxy.host": "proxy"}, "leave it out"),
        ({"http.headers.additional": "nothing"}, "not like name:value"),
    ],
)
def test_wrong_settings_of_the_sink(options: dict[str, str], message: str) -> None:
    given = {"http.url": "http://localhost", "http.authorization.type": "none", **options}
    with pytest.raises(InvalidConfig, match=message):
        plugins.find_connector(SINK).settings_class.read(given)
