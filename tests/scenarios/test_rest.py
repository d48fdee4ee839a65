"""The REST proxy with a real broker: version 2 as its documentation says, reading, the service."""

import http.client
import json
import threading
import time
from typing import Any

from odradek.testing import Cluster
from tests.scenarios.connect_process import until
from tests.scenarios.rest_bench import EARLIEST, produce, read, rest, text, topic
from tests.scenarios.rest_server import AVRO_V2, BINARY_V2, JSON_V2, V2, Rest

__all__ = ["rest", "topic"]


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
