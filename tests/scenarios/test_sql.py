"""The SQL server on real brokers: statements, queries, a kill, two servers."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode
from uuid import uuid4

import pytest

from odradek.testing import Cluster
from tests.scenarios.registry_process import running as registry_running
from tests.scenarios.sql_server import SocketClient, SqlServer, sql_started


@pytest.fixture
def service() -> str:
    """A service of this test alone: its own command topic."""
    return f"ksql.service.id=test-{uuid4().hex[:8]}"


def test_statements_and_queries(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    service_id = service.partition("=")[2]
    topic = f"orders-{uuid4().hex[:8]}"
    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as server:
        created = server.ksql(
            "CREATE STREAM orders (id INT KEY, item STRING, price DECIMAL(6, 2))"
            f" WITH (kafka_topic='{topic}', value_format='JSON', partitions=2);"
            f"CREATE TABLE totals WITH (kafka_topic='{topic}-totals') AS"
            " SELECT item, COUNT(*) AS n, SUM(price) AS total FROM orders GROUP BY item;"
        )
        assert [one["commandStatus"]["status"] for one in created] == ["SUCCESS", "SUCCESS"]
        query_id = created[1]["commandStatus"]["queryId"]
        for number, price in enumerate((2.5, 3, 1.25)):
            assert server.ksql(f"INSERT INTO orders VALUES ({number}, 'tea', {price});") == []
        changes = server.rows("SELECT * FROM totals EMIT CHANGES LIMIT 3;")
        assert changes == [["tea", 1, 2.5], ["tea", 2, 5.5], ["tea", 3, 6.75]]
        # Each row is a whole line as soon as it is there, also in the older format.
        lines = server.lines("SELECT n FROM totals EMIT CHANGES;", 4)
        assert [one for one in lines if "header" not in one] == [
            f'{{"row":{{"columns":[{n}]}}}},' for n in (1, 2, 3)
        ]
        assert server.rows("SELECT n FROM totals WHERE item = 'tea';") == [[3]]
        assert server.rows("SELECT n FROM totals WHERE item = 'rum';") == []
        status, body = server.ask(
            "POST", "/inserts-stream", b'{"target":"orders"}\n{"id":9,"item":"rum","price":"4"}\n'
        )
        assert (status, body) == (200, b'{"status":"ok","seq":0}\n')
        sent = b'{"target":"orders"}\n{"id":9,"price":"4"}\n{"id":9,"wrong":1}\n'
        status, body = server.ask("POST", "/inserts-stream", sent, accept="application/json")
        assert (status, [one["status"] for one in json.loads(body)]) == (200, ["ok", "error"])
        assert server.rows("SELECT item FROM totals EMIT CHANGES LIMIT 4;")[3] == ["rum"]

        _described(server, topic, query_id, service_id)
        _refused(server, topic, query_id)
        _in_the_shell(server)
        dropped = server.ksql("DROP TABLE totals; DROP STREAM orders DELETE TOPIC; SHOW STREAMS;")
        assert dropped[-1]["streams"] == []


def _described(server: SqlServer, topic: str, query_id: str, service_id: str) -> None:
    (queries,) = server.ksql("SHOW QUERIES;")
    assert [(one["id"], one["state"]) for one in queries["queries"]] == [(query_id, "RUNNING")]
    (described,) = server.ksql("DESCRIBE totals EXTENDED;")
    fields = described["sourceDescription"]["fields"]
    assert [one["name"] for one in fields] == ["ITEM", "N", "TOTAL"]
    assert described["sourceDescription"]["statistics"] == "total-messages:         4"
    (summary,) = described["sourceDescription"]["queryOffsetSummaries"]
    (read,) = summary["topicSummaries"]
    assert read["kafkaTopic"] == topic
    assert [one["consumerOffset"] for one in read["offsets"]] == [
        one["logEndOffset"] for one in read["offsets"]
    ]
    (shown,) = server.ksql("SHOW ALL TOPICS EXTENDED;")
    counts = {one["name"]: one["consumerGroupCount"] for one in shown["topics"]}
    assert (counts[topic], counts[f"_odradek_sql_{service_id}_commands"]) == (0, 1)
    (explained,) = server.ksql(f"EXPLAIN {query_id};")
    assert "-> aggregate-" in explained["queryDescription"]["topology"]


def _refused(server: SqlServer, topic: str, query_id: str) -> None:
    wrong = server.ksql("SHOW STREAMS; SELECT * FROM orders;")
    assert (wrong["error_code"], len(wrong["entities"])) == (40002, 1)
    wrong = server.ksql("SHOW STREAMS;\nSHOW STREEMS;")
    assert (wrong["error_code"], len(wrong["entities"])) == (40001, 0)
    assert "did you mean STREAMS?" in wrong["message"]
    wrong = server.ksql(
        f"ASSERT NOT EXISTS TOPIC '{topic}' WITH (partitions=99) TIMEOUT 0 SECONDS;"
    )
    assert (wrong["error_code"], wrong["message"]) == (41700, f"line 1:1: Topic {topic} exists")
    status, body = server.ask("POST", "/query", {"ksql": "SELECT nope FROM totals;"})
    assert (status, json.loads(body)["statementText"]) == (400, "SELECT nope FROM totals;")
    wrong = server.ksql("DROP STREAM orders;")
    assert query_id in wrong["message"]
    status, body = server.ask("POST", "/query", {"ksql": f"PRINT '{topic}s';"})
    assert status == 400
    assert f"Could not find topic '{topic}s'; did you mean {topic}" in body.decode()
    _, body = server.ask("POST", "/query", {"ksql": "PRINT 'nowhere';"})
    assert "Could not find topic 'nowhere'; SHOW TOPICS; lists what" in body.decode()


def _in_the_shell(server: SqlServer) -> None:
    shell = [sys.executable, "-m", "odradek.cli", "sql", "--server"]
    shell += [f"http://127.0.0.1:{server.port}", "-e"]
    told = subprocess.run(
        [*shell, "SELECT n FROM totals WHERE item = 'tea'; SHOW TABLES;"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "`N` BIGINT\n3\nQuery Completed" in told.stdout
    assert "TOTALS" in told.stdout
    settings = "SET 'auto.offset.rest' = 'x'; SET 'auto.offset.reset' = 'earliest';"
    told = subprocess.run(
        [*shell, f"{settings} SELECT * FROM orders EMIT CHANGES LIMIT 1;"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "auto.offset.rest is not supported; did you mean auto.offset.reset?" in told.stderr
    # A DECIMAL(6, 2) has two places: 2.50, not 2.5.
    assert re.search(r"tea \| \d\.\d\d\nLimit Reached", told.stdout)


def test_queries_begin_where_their_topics_ended_when_they_were_answered(
    odradek_cluster: Cluster, service: str, tmp_path: Path
) -> None:
    """Without `auto.offset.reset`: a stream is read from its end, a table from its beginning."""
    topic = f"begin-{uuid4().hex[:8]}"
    limit = "ksql.max.push.queries=2"
    with sql_started(tmp_path, odradek_cluster.bootstrap, service, limit) as server:
        server.ksql(
            f"CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='{topic}',"
            " value_format='JSON', partitions=2);"
            f"CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='{topic}-t',"
            " value_format='JSON', partitions=2);"
            "INSERT INTO s VALUES (0, 1); INSERT INTO t VALUES (1, 10); INSERT INTO t VALUES"
            " (2, 20);"
        )
        for number in range(5):
            # The query does not run yet when the rows are written.
            (created,) = server.ksql(
                f"CREATE TABLE n{number} WITH (kafka_topic='{topic}-n{number}') AS"
                " SELECT k * 0 AS one, COUNT(*) AS n FROM s GROUP BY k * 0;", {},
            )  # fmt: skip
            assert created["commandStatus"]["status"] == "SUCCESS", created
            assert server.ksql("INSERT INTO s VALUES (1, 2); INSERT INTO s VALUES (2, 3);") == []
            changes = server.rows(f"SELECT n FROM n{number} EMIT CHANGES LIMIT 2;")
            assert changes == [[1], [2]]
        with server.stream("SELECT * FROM s EMIT CHANGES LIMIT 1;", {}) as lines:
            assert next(lines)["columnNames"] == ["K", "V"]
            assert server.ksql("INSERT INTO s VALUES (3, 4);") == []
            assert next(lines) == [3, 4]
        joined = "SELECT s.k, t.v FROM s JOIN t ON s.k = t.k EMIT CHANGES LIMIT 1;"
        with server.stream(joined, {}) as lines:
            next(lines)
            assert server.ksql("INSERT INTO s VALUES (2, 5);") == []
            assert next(lines) == [2, 20]
        push = "SELECT * FROM s EMIT CHANGES;"
        with server.stream(push, {}) as one, server.stream(push, {}) as other:
            (query_id, _) = (next(lines)["queryId"] for lines in (one, other))
            status, body = server.ask("POST", "/query", {"ksql": push})
            assert (status, json.loads(body)["error_code"]) == (400, 40003)
            assert server.ask("POST", "/close-query", {"queryId": query_id})[0] == 200
            assert list(one) == []
            assert server.ask("POST", "/close-query", {"queryId": query_id})[0] == 400
            # There is room for another one now.
            with server.stream(push, {}) as third:
                next(third)


def test_server_without_brokers_says_so() -> None:
    address = "127.0.0.1:1"  # A port at which nobody listens.
    told = subprocess.run(
        [sys.executable, "-m", "odradek.cli", "sql-server", "--override",
         f"bootstrap.servers={address}", "--override", "listeners=http://127.0.0.1:0"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert told.returncode == 1
    assert f"no broker can be reached: {address}: " in told.stderr
    assert "Traceback" not in told.stderr


def test_a_new_version_beside_the_old_one(
    odradek_cluster: Cluster, service: str, tmp_path: Path
) -> None:
    """docs/sql.md, "Change a query": back-filled, compared, cut over, rolled back."""
    topic = f"change-{uuid4().hex[:8]}"
    create = (
        "CREATE TABLE sums_{0} WITH (kafka_topic='{1}-{0}') AS SELECT k, {2} FROM s GROUP BY k;"
    )

    def rows_behind(server: SqlServer, table: str) -> int:
        (described,) = server.ksql(f"DESCRIBE {table} EXTENDED;")
        return sum(
            one["logEndOffset"] - one["consumerOffset"]
            for summary in described["sourceDescription"]["queryOffsetSummaries"]
            for read in summary["topicSummaries"]
            for one in read["offsets"]
        )

    def caught_up(server: SqlServer, table: str) -> None:
        end = time.monotonic() + 30
        while rows_behind(server, table):
            assert time.monotonic() < end, f"{table} does not catch up"

    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as server:
        server.ksql(
            f"CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='{topic}', value_format='JSON',"
            " partitions=2);" + create.format(1, topic, "SUM(v) AS total")
        )
        server.ksql("".join(f"INSERT INTO s VALUES ({n % 3}, {n});" for n in range(30)))
        refused = server.ksql(
            create.format(1, topic, "SUM(v) AS total, COUNT(*) AS n").replace(
                "CREATE", "CREATE OR REPLACE"
            )
        )
        assert "create another one beside it" in refused["message"]
        server.ksql(create.format(2, topic, "SUM(v) AS total, COUNT(*) AS n"))
        caught_up(server, "sums_2")
        assert sorted(server.rows("SELECT * FROM sums_2;")) == [
            [0, 135, 10], [1, 145, 10], [2, 155, 10],
        ]  # fmt: skip
        # Both go on, until one of them is dropped: the old one, or the new one to roll back.
        server.ksql("INSERT INTO s VALUES (0, 1000);")
        caught_up(server, "sums_1")
        caught_up(server, "sums_2")
        assert server.rows("SELECT total FROM sums_1 WHERE k = 0;") == [[1135]]
        assert server.rows("SELECT total FROM sums_2 WHERE k = 0;") == [[1135]]
        (dropped,) = server.ksql("DROP TABLE sums_1 DELETE TOPIC;")
        assert dropped["commandStatus"]["status"] == "SUCCESS"
        server.ksql("INSERT INTO s VALUES (0, 1);")
        caught_up(server, "sums_2")
        assert server.rows("SELECT total, n FROM sums_2 WHERE k = 0;") == [[1136, 12]]


def test_queries_over_a_web_socket(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    topic = f"socket-{uuid4().hex[:8]}"

    def path(text: str) -> str:
        body = {"ksql": text, "streamsProperties": {"auto.offset.reset": "earliest"}}
        return f"/ws/query?{urlencode({'request': json.dumps(body)})}"

    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as server:
        server.ksql(
            f"CREATE STREAM s (k INT KEY, v STRING) WITH (kafka_topic='{topic}',"
            " value_format='JSON', partitions=1); INSERT INTO s VALUES (1, 'x');"
        )
        query = SocketClient(server.port, path("SELECT * FROM s EMIT CHANGES LIMIT 2;")).messages()
        columns = json.loads(next(query))
        assert [(one["name"], one["schema"]["type"]) for one in columns] == [
            ("K", "INTEGER"), ("V", "STRING"),
        ]  # fmt: skip
        assert json.loads(next(query)) == {"row": {"columns": [1, "x"]}}
        server.ksql("INSERT INTO s VALUES (2, 'y');")
        assert json.loads(next(query)) == {"row": {"columns": [2, "y"]}}
        assert next(query) == (1000, "done")
        printed = SocketClient(server.port, path(f"PRINT '{topic}' FROM BEGINNING LIMIT 1;"))
        (line, end) = printed.messages()
        assert "key: 1, value: " in line
        assert end == (1000, "done")
        for text, reason in (("SELECT * FROM nothing;", "NOTHING does not exist"),
                             ("SHOW STREAMS;", "a query is expected here")):  # fmt: skip
            code, said = list(SocketClient(server.port, path(text)).messages())[-1]
            assert code == 1003
            assert reason in said
        # A page of another site may not ask, and one that goes away ends its query.
        foreign = SocketClient(server.port, path("SHOW STREAMS;"), {"origin": "http://evil.test"})
        assert list(foreign.messages()) == [(403, "")]
        going = SocketClient(server.port, path("SELECT * FROM s EMIT CHANGES;")).messages()
        next(going)
        going.close()
        assert server.rows("SELECT COUNT(*) AS n FROM s EMIT CHANGES LIMIT 1;") == [[1]]
        assert server.ask("GET", "/ws/query")[0] == 426
    assert "Traceback" not in server.log.read_text()


def test_statements_of_a_file(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    topic = f"file-{uuid4().hex[:8]}"
    file = tmp_path / "queries.sql"
    create = (
        "SET 'auto.offset.reset' = 'earliest';\n"
        f"CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='{topic}', value_format='JSON',"
        " partitions=1);\n"
        f"CREATE TABLE n WITH (kafka_topic='{topic}-n') AS SELECT k, COUNT(*) AS n FROM s GROUP"
        " BY k;\n"
    )
    file.write_text(create)
    override = f"ksql.queries.file={file}"
    for count in (1, 2):  # The second one goes on where the first one was.
        with sql_started(tmp_path, odradek_cluster.bootstrap, service, override) as server:
            refused = server.ksql("DROP TABLE n;")
            assert "are those of ksql.queries.file" in refused["message"]
            assert server.ksql("INSERT INTO s VALUES (7, 1);") == []
            changes = server.rows(f"SELECT n FROM n EMIT CHANGES LIMIT {count};")
            assert changes == [[number + 1] for number in range(count)]
            assert server.rows("SELECT n FROM n WHERE k = 7;") == [[count]]
    file.write_text(create + "CREATE STREAM t AS SELECT nothing FROM s;\n")
    command = [sys.executable, "-m", "odradek.cli", "sql-server", "--override", override]
    command += ["--override", f"bootstrap.servers={odradek_cluster.bootstrap}"]
    command += ["--override", service, "--override", "listeners=http://127.0.0.1:0"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert told.returncode == 1
    assert f"{file}: line 4:27: Column 'NOTHING' cannot be resolved" in told.stderr


def test_system_properties_hold_where_a_request_says_nothing(
    odradek_cluster: Cluster, service: str, tmp_path: Path
) -> None:
    topic = f"system-{uuid4().hex[:8]}"
    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as server:
        server.ksql(
            f"CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='{topic}', value_format='JSON',"
            " partitions=1); INSERT INTO s VALUES (1, 2);"
            " ALTER SYSTEM 'auto.offset.reset' = 'earliest';"
        )
        with server.stream("SELECT * FROM s EMIT CHANGES LIMIT 1;", {}) as lines:
            next(lines)
            assert next(lines) == [1, 2]
        wrong = server.ksql("ALTER SYSTEM 'auto.offset.rest' = 'earliest';")
        assert "did you mean auto.offset.reset?" in wrong["message"]


def test_functions_of_the_operator(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    directory = tmp_path / "functions"
    directory.mkdir()
    text = "from odradek.sql import udf\n@udf\ndef half(n: int) -> float:\n    return n / 2\n"
    (directory / "mine.py").write_text(text)
    override = f"ksql.extension.dir={directory}"
    topic = f"halves-{uuid4().hex[:8]}"
    with sql_started(tmp_path, odradek_cluster.bootstrap, service, override) as server:
        server.ksql(
            f"CREATE STREAM s (k INT KEY, n INT) WITH (kafka_topic='{topic}', value_format='JSON',"
            " partitions=1); INSERT INTO s VALUES (1, 3);"
        )
        assert server.rows("SELECT HALF(n) AS h FROM s EMIT CHANGES LIMIT 1;") == [[1.5]]
        (described,) = server.ksql("DESCRIBE FUNCTION half;")
        assert described["path"] == f"{directory}/mine.py:2"
    (directory / "mine.py").write_text("def half(:\n")
    told = subprocess.run(
        [sys.executable, "-m", "odradek.cli", "sql-server", "--override", override],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert told.returncode == 1
    assert f"ksql.extension.dir: {directory}/mine.py:1: invalid syntax" in told.stderr


def test_server_is_killed_and_another_goes_on(
    odradek_cluster: Cluster, service: str, tmp_path: Path
) -> None:
    topic = f"numbers-{uuid4().hex[:8]}"
    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as first:
        first.ksql(
            f"CREATE STREAM numbers (k STRING KEY, n BIGINT) WITH (kafka_topic='{topic}',"
            " value_format='JSON', partitions=2);"
            f"CREATE TABLE sums WITH (kafka_topic='{topic}-sums') AS"
            " SELECT k, COUNT(*) AS c, SUM(n) AS total FROM numbers GROUP BY k;"
        )
        text = "".join(f"INSERT INTO numbers VALUES ('k{n % 3}', {n});" for n in range(30))
        assert first.ksql(text) == []
        assert len(first.rows("SELECT * FROM sums EMIT CHANGES LIMIT 15;")) == 15
        first.kill()
    with sql_started(tmp_path, odradek_cluster.bootstrap, service) as second:
        # The statements are in the topic, so the second server knows the streams.
        text = "".join(f"INSERT INTO numbers VALUES ('k{n % 3}', {n});" for n in range(30, 60))
        assert second.ksql(text) == []
        changes = second.rows("SELECT k, c, total FROM sums EMIT CHANGES LIMIT 60;")
        # Each record made one change, and none is missing or doubled.
        for key in range(3):
            numbers = range(key, 60, 3)
            totals = [sum(numbers[: count + 1]) for count in range(20)]
            expected = [[f"k{key}", count + 1, total] for count, total in enumerate(totals)]
            assert [change for change in changes if change[0] == f"k{key}"] == expected


def test_two_servers_agree(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    topic = f"t-{uuid4().hex[:8]}"
    columns = f"WITH (kafka_topic='{topic}', value_format='JSON', partitions=1);"
    one_directory, other_directory = tmp_path / "one", tmp_path / "other"
    one_directory.mkdir()
    other_directory.mkdir()
    with (
        sql_started(one_directory, odradek_cluster.bootstrap, service) as one,
        sql_started(other_directory, odradek_cluster.bootstrap, service) as other,
    ):
        (created,) = one.ksql(f"CREATE STREAM s (k INT KEY, a STRING) {columns}")
        number = created["commandSequenceNumber"]
        status, body = other.ask(
            "POST", "/ksql",
            {"ksql": f"CREATE STREAM s (k INT KEY, b STRING) {columns}",
             "commandSequenceNumber": number},
        )  # fmt: skip
        assert status == 400
        assert "already exists" in json.loads(body)["message"]
        (shown,) = other.ksql("SHOW STREAMS;")
        assert [source["name"] for source in shown["streams"]] == ["S"]
        one.ksql("INSERT INTO s VALUES (1, 'x');")
        assert other.rows("SELECT * FROM s;") == [[1, "x"]]


def test_formats_with_a_registry(odradek_cluster: Cluster, service: str, tmp_path: Path) -> None:
    """What one server writes in Avro, another reads; columns come from the registry."""
    topic = f"avro-{uuid4().hex[:8]}"
    with registry_running(tmp_path / "registry", odradek_cluster.bootstrap) as registry:
        url = f"ksql.schema.registry.url=http://127.0.0.1:{registry.port}"
        with sql_started(tmp_path, odradek_cluster.bootstrap, service, url) as server:
            server.ksql(
                "CREATE STREAM a (id INT KEY, price DECIMAL(4, 2), day DATE)"
                f" WITH (kafka_topic='{topic}', format='AVRO', partitions=2);"
                f"CREATE STREAM p WITH (kafka_topic='{topic}-p', format='PROTOBUF') AS"
                " SELECT * FROM a;"
                f"CREATE STREAM j WITH (kafka_topic='{topic}-j', format='JSON_SR') AS"
                " SELECT * FROM p;"
                "INSERT INTO a VALUES (1, 2.5, '2024-02-29');"
            )
            assert server.rows("SELECT * FROM j EMIT CHANGES LIMIT 1;") == [[1, 2.5, "2024-02-29"]]
            server.ksql(f"CREATE STREAM b WITH (kafka_topic='{topic}', format='AVRO');")
            assert server.rows("SELECT * FROM b;") == [[1, 2.5, "2024-02-29"]]
            _, printed = server.ask(
                "POST", "/query", {"ksql": f"PRINT '{topic}' FROM BEGINNING LIMIT 1;"}
            )
            assert 'key: 1, value: {"PRICE":2.50,"DAY":19782}' in printed.decode()
            holds = server.ksql(f"ASSERT SCHEMA SUBJECT '{topic}-value';")
            assert holds[0]["exists"]
            missing = server.ksql("ASSERT SCHEMA SUBJECT 'nothing' TIMEOUT 100 MILLISECONDS;")
            assert "Schema with subject name nothing does not exist" in missing["message"]
        # After a restart the columns are those of the statement.
        with sql_started(tmp_path, odradek_cluster.bootstrap, service, url) as again:
            (described,) = again.ksql("DESCRIBE b;")
            names = [one["name"] for one in described["sourceDescription"]["fields"]]
            assert names == ["ROWKEY", "PRICE", "DAY"]
