"""Version 3 of the REST proxy with a real broker, as its documentation says."""

import http.client
import json
from typing import Any

from tests.scenarios.connect_process import until
from tests.scenarios.rest_bench import EARLIEST, produce, read, rest, text, topic
from tests.scenarios.rest_server import JSON_V2, V2, Rest

__all__ = ["rest", "topic"]


class TestVersion3:
    def test_resources_have_links_that_lead_to_them(self, rest: Rest, topic: str) -> None:
        cluster = rest.get("/v3/clusters").json["data"][0]
        seen: set[str] = set()
        # The list of topics may begin and end with those of other tests.
        waiting = [cluster, rest.get(rest.v3(f"/topics/{topic}")).json]
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
        assert any(f"/topics/{topic}/" in url for url in seen)

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
