"""The REST proxy with a real broker: both versions, as their documentation says."""

import base64
import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.testing import Cluster
from tests.scenarios.rest_server import AVRO_V2, BINARY_V2, JSON_V2, V2, Rest, rest_started


@pytest.fixture(scope="module")
def rest(odradek_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    directory = tmp_path_factory.mktemp("rest")
    settings = {
        "bootstrap.servers": f"PLAINTEXT://{odradek_cluster.bootstrap}",
        "consumer.instance.timeout.ms": "3000",
        "odradek.max.body.bytes": "2000000",
    }
    with rest_started(directory, settings) as started:
        yield started


@pytest.fixture
def topic(odradek_cluster: Cluster) -> str:
    return odradek_cluster.create_topic(partitions=2)


def text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def until(condition: Any, deadline_s: float = 30.0) -> Any:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("the condition did not come true")


class TestVersion3:
    def test_resources_have_links_that_lead_to_them(self, rest: Rest, topic: str) -> None:
        cluster = rest.get("/v3/clusters").json["data"][0]
        seen: set[str] = set()
        waiting = [cluster]
        while waiting and len(seen) < 150:
            resource = waiting.pop()
            assert resource["metadata"]["self"].startswith(rest.url)
            for value in resource.values():
                url = value.get("related") if isinstance(value, dict) else None
                unneeded = ("reassignment", "/configs", "/acls", "lag-summary")
                if url is None or url in seen or any(one in url for one in unneeded):
                    continue
                seen.add(url)
                answer = rest.get(url.removeprefix(rest.url))
                assert answer.status == 200, (url, answer.body)
                found = answer.json
                waiting += [*found["data"][:2], *found["data"][-2:]] if "data" in found else [found]
        assert any("/topics/topic-" in url for url in seen)

    def test_a_topic_from_its_creation_to_its_end(self, rest: Rest) -> None:
        new = {
            "topic_name": "orders.v3", "partitions_count": 1, "replication_factor": 1,
            "configs": [{"name": "retention.ms", "value": 60000}],
        }  # fmt: skip
        checked = rest("POST", rest.v3("/topics"), {**new, "validate_only": True})
        assert checked.status == 200
        assert rest.get(rest.v3("/topics/orders.v3")).status == 404
        made = rest("POST", rest.v3("/topics"), new)
        assert (made.status, made.json["kind"]) == (201, "KafkaTopic")
        again = rest("POST", rest.v3("/topics"), new)
        assert (again.status, again.code) == (400, 40002)
        grown = rest("PATCH", rest.v3("/topics/orders.v3"), {"partitions_count": 3})
        assert (grown.status, grown.json["partitions_count"]) == (200, 3)
        alter = {"data": [{"name": "retention.ms", "operation": "DELETE"},
                          {"name": "cleanup.policy", "value": "compact"}]}  # fmt: skip
        assert rest("POST", rest.v3("/topics/orders.v3/configs:alter"), alter).status == 204
        policy = rest.v3("/topics/orders.v3/configs/cleanup.policy")
        until(lambda: rest.get(policy).json["value"] == "compact")
        assert rest("DELETE", policy).status == 204
        assert rest("DELETE", rest.v3("/topics/orders.v3")).status == 204
        until(lambda: rest.get(rest.v3("/topics/orders.v3")).code == 40403)

    def test_what_the_caller_may_do_with_a_topic(self, rest: Rest, topic: str) -> None:
        asking = "include_authorized_operations=true"
        for path in (rest.v3(f"/topics/{topic}"), rest.v3("/topics")):
            assert b'"authorized_operations":[]' in rest.get(path).body
            found = rest.get(f"{path}?{asking}").json
            one = next(each for each in found.get("data", [found]) if each["topic_name"] == topic)
            assert {"READ", "WRITE", "DESCRIBE"} <= set(one["authorized_operations"])
            assert rest.get(f"{path}?include_authorized_operations=perhaps").status == 400

    def test_records_in_a_stream_are_answered_one_by_one(self, rest: Rest, topic: str) -> None:
        records: list[dict[str, Any]] = [
            {"value": {"type": "JSON", "data": {"n": 12345678901234567890, "x": 1.10}}},
            {"key": {"type": "STRING", "data": "k"}, "partition_id": 1},
            {"value": {"type": "BINARY", "data": "!!!"}},
            {"partition_id": 99, "value": {"type": "STRING", "data": "lost"}},
            {"value": {"type": "BINARY", "data": text(b"\x00")}, "partition_id": 1,
             "headers": [{"name": "h", "value": text(b"v")}],
             "timestamp": "2026-02-05T19:14:42Z"},
        ]  # fmt: skip
        body = "".join(json.dumps(record) for record in records).encode()
        answer = rest("POST", rest.v3(f"/topics/{topic}/records"), body)
        assert answer.status == 200
        codes = [line["error_code"] for line in answer.lines]
        assert codes == [200, 200, 400, 40402, 200]
        assert answer.lines[0]["value"] == {"type": "JSON", "size": 34}
        assert answer.lines[4]["timestamp"] == "2026-02-05T19:14:42.000Z"

    def test_a_stream_is_answered_while_it_goes_on(self, rest: Rest, topic: str) -> None:
        """Each record is answered before the next is sent, over one connection."""
        connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=30)
        connection.putrequest("POST", rest.v3(f"/topics/{topic}/records"))
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()

        def send(data: bytes) -> None:
            connection.send(b"%x\r\n%s\r\n" % (len(data), data))

        one = json.dumps({"partition_id": 0, "value": {"type": "STRING", "data": 'x{"y'}}).encode()
        send(one[:20])
        send(one[20:])
        response = connection.getresponse()
        assert json.loads(response.readline())["offset"] == 0
        for offset in (1, 2, 3):
            send(one)
            assert json.loads(response.readline())["offset"] == offset
        connection.send(b"0\r\n\r\n")
        assert response.read() == b""
        connection.close()

    def test_a_stream_that_is_none_says_where(self, rest: Rest, topic: str) -> None:
        path = rest.v3(f"/topics/{topic}/records")
        assert rest("POST", path, b"", kind="application/json").status == 422
        for body in (b"[1]", b'{"value": {"type": "JSON", "data": ', b"x", b'{"value": 3}'):
            answer = rest("POST", path, body)
            assert answer.lines[0]["error_code"] == 400, body
        deep = b'{"value": {"type": "JSON", "data": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
        assert rest("POST", path, deep).lines[0]["error_code"] == 400
        large = json.dumps({"value": {"type": "STRING", "data": "x" * 3_000_000}}).encode()
        assert "2,000,000" in rest("POST", path, large).lines[0]["message"]

    def test_a_misspelt_field_is_refused_and_writes_nothing(self, rest: Rest, topic: str) -> None:
        """Without `value` a record is a tombstone, so `valu` must not be passed over."""
        records, topics = rest.v3(f"/topics/{topic}/records"), rest.v3("/topics")
        one = {"type": "JSON", "data": 1}
        for wrong, name in (
            ({"valu": one}, "valu"),
            ({"value": {**one, "tpye": "JSON"}}, "tpye"),
            ({"value": one, "headers": [{"nam": "h"}]}, "nam"),
        ):
            answer = rest("POST", records, wrong)
            assert answer.lines[0]["error_code"] == 400, answer.body
            assert f"`{name}`" in answer.lines[0]["message"]
        entries = {"entries": [{"id": "1", "valu": one}]}
        assert rest("POST", f"{records}:batch", entries).status == 422
        assert rest("POST", topics, {"topic_name": "six", "partition_count": 6}).status == 422
        alter = {"data": [{"name": "retention.ms", "valeu": 1}]}
        path = rest.v3(f"/topics/{topic}/configs:alter")
        assert rest("POST", path, alter).status == 422
        written = rest.get(rest.v3(f"/topics/{topic}/partitions/0/records?offset=earliest"))
        assert written.json["data"] == []

    def test_a_value_without_a_type_is_told_which_there_are(self, rest: Rest, topic: str) -> None:
        answer = rest("POST", rest.v3(f"/topics/{topic}/records"), {"value": {"data": 1}})
        assert "needs a type: STRING, JSON or BINARY" in answer.lines[0]["message"]

    def test_a_batch_names_what_failed(self, rest: Rest, topic: str) -> None:
        entries = [
            {"id": "1", "value": {"type": "STRING", "data": "a"}},
            {"id": "2", "value": {"type": "BINARY", "data": "?"}},
        ]
        path = rest.v3(f"/topics/{topic}/records:batch")
        answer = rest("POST", path, {"entries": entries})
        assert answer.status == 207
        assert [one["id"] for one in answer.json["successes"]] == ["1"]
        assert [one["id"] for one in answer.json["failures"]] == ["2"]
        assert answer.json["failures"][0]["error_code"] == 400
        for wrong in ([], [*entries, *entries], [{"id": "x" * 81}], [{"id": 1}]):
            assert rest("POST", path, {"entries": wrong}).status == 422

    def test_what_is_wrong_with_an_only_record_is_in_its_line(self, rest: Rest, topic: str) -> None:
        """The status is that of the connection, however many records a request has."""
        path = rest.v3(f"/topics/{topic}/records")
        for record, code, words in (
            ({"value": {"type": "BINARY", "data": 1}}, 400, "data=1 is not a base64 string"),
            ({"value": {"type": "BINARY", "data": "!"}}, 400, "not a valid base64 string"),
            ({"value": {"type": "STRING", "data": [1]}}, 400, "data=[1] is not a string"),
            ({"headers": [{"name": "h", "value": "!"}]}, 400, "not a valid base64 string"),
            ({"value": {"type": "XML", "data": "x"}}, 400, "no type XML"),
            ({"partition_id": -1}, 40402, "no such partition"),
        ):
            answer = rest("POST", path, record)
            assert (answer.status, answer.code) == (200, code), answer.body
            assert words in answer.json["message"]
            assert code != 400 or answer.json["message"].startswith("Bad Request: ")

    def test_a_schema_that_is_named_twice_is_refused(self, rest: Rest, topic: str) -> None:
        for data in (
            {"type": "JSON", "schema_id": 1},
            {"type": "STRING", "subject_name_strategy": "TOPIC_NAME"},
            {"schema_id": 1, "schema_version": 1},
            {"subject": "s", "subject_name_strategy": "TOPIC_NAME"},
            {"type": "AVRO", "schema_id": 1},
            {"type": "AVRO"},
        ):
            record = {"value": {"data": "x", **data}}
            answer = rest("POST", rest.v3(f"/topics/{topic}/records"), record)
            assert (answer.status, answer.code) == (200, 400), (data, answer.body)

    def test_a_body_that_is_missing(self, rest: Rest, topic: str) -> None:
        kind = "application/json"
        for method, path in (
            ("POST", rest.v3("/topics")),
            ("PATCH", rest.v3(f"/topics/{topic}")),
            ("PUT", rest.v3(f"/topics/{topic}/configs/retention.ms")),
            ("POST", rest.v3(f"/topics/{topic}/configs:alter")),
            ("POST", rest.v3(f"/topics/{topic}/records:batch")),
            ("POST", rest.v3("/acls")),
        ):
            assert rest(method, path, b"", kind=kind).status == 422, path
        assert rest("POST", f"/topics/{topic}", b"", kind=JSON_V2).status == 422

    def test_a_setting_that_is_unknown(self, rest: Rest, topic: str) -> None:
        broker = rest.get(rest.v3("/brokers")).json["data"][0]["broker_id"]
        alter = {"data": [{"name": "no.such", "value": "1"}]}
        for path in (rest.v3(f"/topics/{topic}/configs"), rest.v3(f"/brokers/{broker}/configs")):
            assert rest("PUT", f"{path}/no.such", {"value": "1"}).status == 404, path
            assert rest("DELETE", f"{path}/no.such").status == 404, path
            assert rest("POST", f"{path}:alter", alter).status == 404, path

        several = {"data": [{"topic_name": topic, "configs": alter["data"]}]}
        assert rest("POST", rest.v3("/topics/-/configs:alter"), several).status == 404

    def test_a_field_that_is_missing(self, rest: Rest, topic: str) -> None:
        for method, path in (
            ("POST", "/topics"),
            ("PATCH", f"/topics/{topic}"),
            ("POST", f"/topics/{topic}/configs:alter"),
            ("POST", "/acls"),
        ):
            assert rest(method, rest.v3(path), {}).status == 400, path

    def test_a_broker_that_is_not_there(self, rest: Rest) -> None:
        for path in ("", "/configs", "/partition-replicas"):
            assert rest.get(rest.v3(f"/brokers/77{path}")).status == 404, path

    def test_a_filter_of_acls_that_is_wrong(self, rest: Rest) -> None:
        for method, query in (("GET", "?resource_type=UNKNOWN"), ("DELETE", "")):
            answer = rest(method, rest.v3(f"/acls{query}"))
            assert (answer.status, answer.code) == (400, 400)

    def test_offsets_of_a_partition(self, rest: Rest, topic: str) -> None:
        path = rest.v3(f"/topics/{topic}/partitions/1/offset")
        found = rest.get(f"{path}?offset_type=earliest_and_latest").json
        assert (found["earliest_offset"], found["latest_offset"]) == (0, 0)
        name = f"/topic={topic}/partition=1/offset_type=earliest_and_latest"
        assert found["metadata"]["resource_name"].endswith(name)
        assert rest.get(f"{path}?offset_type=latest").code == 400

    def test_an_unknown_topic_is_said_at_once_or_created(self, rest: Rest) -> None:
        bad = rest("POST", rest.v3("/topics/no%20topic/records"), {"value": {"type": "STRING",
                   "data": "x"}})  # fmt: skip
        assert bad.lines[0]["error_code"] in (40002, 40403)

    def test_groups_and_how_far_they_are_behind(self, rest: Rest, topic: str) -> None:
        produce(rest, topic, [{"value": n} for n in range(5)])
        with rest.consumer("lagging", format="json", **EARLIEST) as path:
            rest("POST", f"{path}/subscription", {"topics": [topic]}, kind=V2)
            read(rest, path, 5)
            commit = {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}
            assert rest("POST", f"{path}/offsets", commit, kind=V2).status == 200
            group = rest.get(rest.v3("/consumer-groups/lagging")).json
            assert (group["state"], group["is_simple"]) == ("STABLE", False)
            lag = rest.get(rest.v3(f"/consumer-groups/lagging/lags/{topic}/partitions/0")).json
            assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (2, 5, 3)
            assert lag["consumer_id"]
            summary = rest.get(rest.v3("/consumer-groups/lagging/lag-summary")).json
            assert (summary["max_lag"], summary["max_lag_topic_name"]) == (3, topic)
            name = summary["metadata"]["resource_name"]
            assert name.endswith("/consumer-group=lagging/lag-summary")
            produce(rest, topic, [{"value": n} for n in range(9)], partition=1)
            commit = {"offsets": [{"topic": topic, "partition": 1, "offset": 0}]}
            assert rest("POST", f"{path}/offsets", commit, kind=V2).status == 200
            lags = rest.get(rest.v3("/consumer-groups/lagging/lags")).json["data"]
            assert [(one["partition_id"], one["lag"]) for one in lags] == [(1, 8), (0, 3)]
            member = rest.get(rest.v3("/consumer-groups/lagging/consumers")).json["data"][0]
            assignments = member["assignments"]["related"].removeprefix(rest.url)
            assert len(rest.get(assignments).json["data"]) == 2
        assert rest.get(rest.v3("/consumer-groups/nobody")).status == 404


EARLIEST: dict[str, Any] = {"auto.offset.reset": "earliest", "auto.commit.enable": "false"}


def produce(rest: Rest, topic: str, records: list[Any], partition: int = 0) -> None:
    path = f"/topics/{topic}/partitions/{partition}"
    answer = rest("POST", path, {"records": records}, kind=JSON_V2)
    assert answer.status == 200, answer.body
    assert all(one["error_code"] is None for one in answer.json["offsets"])


def read(rest: Rest, path: str, count: int, kind: str = JSON_V2) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        answer = rest("GET", f"{path}/records?timeout=500", None, {"Accept": kind})
        assert answer.status == 200, answer.body
        assert answer.kind == kind
        found.extend(answer.json)
        return len(found) >= count

    until(enough)
    return found


class TestReading:
    def test_by_offset_and_by_time_with_headers(self, rest: Rest, topic: str) -> None:
        path = rest.v3(f"/topics/{topic}/records")
        for n in range(5):
            record = {
                "partition_id": 0, "key": {"type": "STRING", "data": "k"},
                "value": {"type": "JSON", "data": {"n": n}},
                "headers": [{"name": "trace", "value": text(b"t")}, {"name": "none"}],
                "timestamp": f"2026-02-05T19:14:4{n}Z",
            }  # fmt: skip
            assert rest("POST", path, record).json["offset"] == n
        path = rest.v3(f"/topics/{topic}/partitions/0/records")
        answer = rest.get(f"{path}?offset=2&max_records=2").json
        assert [one["offset"] for one in answer["data"]] == [2, 3]
        first = answer["data"][0]
        assert first["timestamp"] == "2026-02-05T19:14:42.000Z"
        assert first["headers"] == [{"name": "trace", "value": text(b"t")},
                                    {"name": "none", "value": None}]  # fmt: skip
        assert first["key"] == {"type": "STRING", "data": "k"}
        assert first["value"] == {"type": "JSON", "data": {"n": 2}}
        following = answer["metadata"]["next"].removeprefix(rest.url)
        assert [one["offset"] for one in rest.get(following).json["data"]] == [4]
        later = rest.get(f"{path}?timestamp=2026-02-05T19:14:43Z").json
        assert [one["offset"] for one in later["data"]] == [3, 4]
        assert rest.get(f"{path}?offset=latest").json["data"] == []
        for wrong in ("offset=6", "offset=x", "offset=1&timestamp=1", "max_records=0",
                      "timestamp=soon", "ofset=1"):  # fmt: skip
            assert rest.get(f"{path}?{wrong}").status == 400, wrong
        assert rest.get(rest.v3(f"/topics/{topic}/partitions/9/records")).code == 40402

    def test_the_newest_record_of_a_key(self, rest: Rest, topic: str) -> None:
        path = rest.v3(f"/topics/{topic}/records")
        for value in ("old", "new"):
            record = {"key": {"type": "STRING", "data": "4711"},
                      "value": {"type": "STRING", "data": value}}  # fmt: skip
            rest("POST", path, record)
        assert rest.get(f"{path}?key=4711").json["value"]["data"] == "new"
        assert rest.get(f"{path}?key={text(b'4711')}&key_type=BINARY").status == 200
        assert rest.get(f"{path}?key=4712").status == 404
        assert rest.get(path).status == 400

    def test_a_live_tail_goes_on_after_a_break(self, rest: Rest, topic: str) -> None:
        produce(rest, topic, [{"value": "before"}])
        first = Tail(rest, topic)
        produce(rest, topic, [{"value": "one"}])
        assert first.data(1) == ["one"]
        last_id = first.last_id
        first.close()
        produce(rest, topic, [{"value": "two"}, {"value": "three"}])
        second = Tail(rest, topic, last_id)
        assert second.data(2) == ["two", "three"]
        second.close()


class Tail:
    """A client of server-sent events."""

    def __init__(self, rest: Rest, topic: str, last_id: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=30)
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        path = rest.v3(f"/topics/{topic}/records:stream?partition=0")
        self._connection.request("GET", path, headers=headers)
        self._response = self._connection.getresponse()
        assert self._response.status == 200
        self.last_id = ""

    def data(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            line = self._response.readline().strip()
            if line.startswith(b"id: "):
                self.last_id = line[4:].decode()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:])["value"]["data"])
        return found

    def close(self) -> None:
        self._connection.close()


class TestVersion2:
    def test_errors_have_the_codes_of_their_kind(self, rest: Rest, topic: str) -> None:
        cases: list[tuple[str, str, Any, str, int, int]] = [
            ("GET", "/topics/nothing", None, V2, 404, 40401),
            ("GET", f"/topics/{topic}/partitions/7", None, V2, 404, 40402),
            ("GET", "/consumers/g/instances/i/records", None, V2, 404, 40403),
            ("POST", f"/topics/{topic}", {"records": []}, JSON_V2, 422, 422),
            ("POST", f"/topics/{topic}", {"record": []}, JSON_V2, 422, 422),
            ("POST", f"/topics/{topic}", {"records": [{"value": 1}]}, "text/plain", 415, 415),
            ("POST", f"/topics/{topic}", b"{", JSON_V2, 400, 400),
            ("POST", f"/topics/{topic}/partitions/7", {"records": [{"value": 1}]}, JSON_V2, 404,
             40402),
            ("POST", f"/topics/{topic}", {"value_schema_id": 7, "records": [{"value": 1}]}, AVRO_V2,
             408, 40801),
            ("POST", "/consumers/g", {"format": "xml"}, V2, 422, 42204),
            ("POST", "/consumers/g", {"auto.offset.reset": "middle"}, V2, 422, 40001),
            ("POST", "/consumers/g", {"fetch.min.bytes": "x"}, V2, 422, 42204),
        ]  # fmt: skip
        for method, path, body, kind, status, code in cases:
            answer = rest(method, path, body, {"Accept": V2}, kind=kind)
            assert (answer.status, answer.code) == (status, code), (path, answer.body)

    def test_consumers_take_the_media_type_of_their_records_everywhere(self, rest: Rest) -> None:
        for kind in (JSON_V2, BINARY_V2, "application/vnd.kafka+json"):
            made = rest("POST", "/consumers/types", {"format": "json"}, {"Accept": kind}, kind=kind)
            assert (made.status, made.kind) == (200, kind)
            path = made.json["base_uri"].removeprefix(rest.url)
            body = {"topics": ["t"]}
            answer = rest("POST", f"{path}/subscription", body, {"Accept": kind}, kind=kind)
            assert answer.status == 204
            assert rest("DELETE", path, None, {"Accept": kind}).status == 204

    def test_a_request_that_says_no_format_is_binary(self, rest: Rest, topic: str) -> None:
        body = {"records": [{"value": text(b"\xff")}]}
        for kind in (V2, "application/vnd.kafka+json", "application/json", ""):
            answer = rest("POST", f"/topics/{topic}", body, kind=kind)
            assert (answer.status, answer.kind) == (200, V2), kind

    def test_formats_do_not_mix(self, rest: Rest, topic: str) -> None:
        records = {"records": [{"key": text(b"k"), "value": text(b"\xff")}]}
        assert rest("POST", f"/topics/{topic}", records, kind=BINARY_V2).status == 200
        with rest.consumer("formats", format="json", **EARLIEST) as path:
            rest("POST", f"{path}/subscription", {"topics": [topic]}, kind=V2)
            answer = rest("GET", f"{path}/records", None, {"Accept": BINARY_V2})
            assert (answer.status, answer.code) == (406, 40601)
            until(lambda: rest("GET", f"{path}/records", None, {"Accept": JSON_V2}).status == 408)

    def test_assigned_by_hand_and_moved(self, rest: Rest, topic: str) -> None:
        produce(rest, topic, [{"value": n} for n in range(10)])
        at = {"topic": topic, "partition": 0}
        with rest.consumer("by-hand", format="json", **EARLIEST) as path:
            assert rest.get(f"{path}/records").code == 40903
            rest("POST", f"{path}/assignments", {"partitions": [at]}, kind=V2)
            assert rest.get(f"{path}/assignments").json == {"partitions": [at]}
            assert [one["value"] for one in read(rest, path, 10)] == list(range(10))
            for where, body, expected in [
                ("", {"offsets": [{**at, "offset": 8}]}, [8, 9]),
                ("/beginning", {"partitions": [at]}, list(range(10))),
            ]:
                assert rest("POST", f"{path}/positions{where}", body, kind=V2).status == 204
                assert [one["value"] for one in read(rest, path, len(expected))] == expected
            rest("POST", f"{path}/positions/end", {"partitions": [at]}, kind=V2)
            assert rest.get(f"{path}/records?timeout=200").json == []
            for time_, count in (("2021-02-05T19:14:42Z", 10), ("2121-02-05T19:14:42Z", 0)):
                times = {"timestamps": [{**at, "timestamp": time_}]}
                assert rest("POST", f"{path}/positions", times, kind=V2).status == 204
                found = rest.get(f"{path}/records?timeout={5000 if count else 200}").json
                assert len(found) == count
            assert rest("POST", f"{path}/positions", {}, kind=V2).status == 422
            other = {"partitions": [{"topic": topic, "partition": 1}]}
            assert rest("POST", f"{path}/positions/end", other, kind=V2).code == 40903
            both = rest("POST", f"{path}/subscription", {"topics": [topic]}, kind=V2)
            assert both.code == 40903

    def test_offsets_are_committed_by_members_alone(self, rest: Rest, topic: str) -> None:
        with rest.consumer("early", format="json") as path:
            rest("POST", f"{path}/subscription", {"topics": [topic]}, kind=V2)
            offsets = {"offsets": [{"topic": topic, "partition": 0, "offset": 1}]}
            refused = rest("POST", f"{path}/offsets", offsets, kind=V2)
            assert (refused.status, refused.code) == (409, 40903)

    def test_max_bytes_loses_nothing(self, rest: Rest, topic: str) -> None:
        produce(rest, topic, [{"value": "x" * 100} for _ in range(20)])
        with rest.consumer("small", format="json", **EARLIEST) as path:
            rest("POST", f"{path}/subscription", {"topics": [topic]}, kind=V2)
            found: list[int] = []

            def all_of_them() -> bool:
                answer = rest.get(f"{path}/records?max_bytes=250&timeout=500").json
                assert len(answer) <= 2
                found.extend(one["offset"] for one in answer)
                return len(found) >= 20

            until(all_of_them)
            assert found == list(range(20))

    def test_topics_by_pattern_come_and_no_pattern_stalls(
        self, rest: Rest, odradek_cluster: Cluster
    ) -> None:
        odradek_cluster.create_topic("pat." + "a" * 60)
        produce(rest, "pat." + "a" * 60, [{"value": 1}])
        with rest.consumer("pattern", format="json", **EARLIEST) as path:
            began = time.monotonic()
            for pattern in ("(a+)+b", "pat\\.(a+)+"):
                answer = rest("POST", f"{path}/subscription", {"topic_pattern": pattern}, kind=V2)
                assert answer.status == 204
            assert time.monotonic() - began < 5
            assert [one["value"] for one in read(rest, path, 1)] == [1]
            wrong = rest("POST", f"{path}/subscription", {"topic_pattern": "("}, kind=V2)
            assert wrong.status == 400

    def test_an_instance_that_nobody_uses_is_deleted(self, rest: Rest) -> None:
        made = rest("POST", "/consumers/idle", {"name": "i"}, kind=V2)
        assert made.status == 200
        until(lambda: rest("POST", "/consumers/idle", {"name": "i"}, kind=V2).status == 200)

    def test_deleting_ends_a_read_that_waits(self, rest: Rest, topic: str) -> None:
        made = rest("POST", "/consumers/waiting", {"name": "w", "format": "json"}, kind=V2)
        assert made.status == 200
        path = "/consumers/waiting/instances/w"
        at = {"partitions": [{"topic": topic, "partition": 0}]}
        rest("POST", f"{path}/assignments", at, kind=V2)
        answers: list[int] = []
        reader = threading.Thread(
            target=lambda: answers.append(rest.get(f"{path}/records?timeout=60000").status)
        )
        reader.start()
        time.sleep(0.2)  # either order is right; this one is the interesting one
        assert rest("DELETE", path).status == 204
        reader.join(20)
        assert answers == [404]


class TestService:
    def test_it_describes_itself(self, rest: Rest) -> None:
        described = rest.get("/openapi.json").json
        assert len(described["paths"]) > 60
        produce = described["paths"]["/topics/{topic}"]["post"]
        assert JSON_V2 in produce["requestBody"]["content"]

    def test_health_and_figures_need_no_log_in(self, rest: Rest) -> None:
        assert rest.get("/healthz").body == b"alive\n"
        assert rest.get("/readyz").status == 200
        figures = rest.get("/metrics").body.decode()
        assert 'path="/healthz",status="200"' in figures
        assert "odradek_http_request_duration_microseconds_bucket" in figures

    def test_large_bodies_are_refused_early(self, rest: Rest, topic: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=30)
        connection.putrequest("POST", f"/topics/{topic}")
        connection.putheader("Content-Type", JSON_V2)
        connection.putheader("Content-Length", "100000000")
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()

    def test_pages_of_other_sites_are_refused(self, rest: Rest, topic: str) -> None:
        body = {"records": [{"value": 1}]}
        for headers in ({"Host": "attacker.example"}, {"Origin": "http://attacker.example"}):
            answer = rest("POST", f"/topics/{topic}", body, headers, kind=JSON_V2)
            assert answer.status in (403, 421)
        assert rest("POST", f"/topics/{topic}", body, kind="text/plain").status == 415
