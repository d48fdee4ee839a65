"""The schema registry on Apache Kafka and on our brokers: election, fencing and records."""

import json
from pathlib import Path

from benchmarks.broker_process import BrokerProcess
from tests.scenarios.registry_process import running


def schema(number: int) -> dict[str, str]:
    fields = [{"name": f"a{number}", "type": "int", "default": 0}]
    return {"schema": json.dumps({"type": "record", "name": "R", "fields": fields})}


def test_two_instances_and_a_kill(any_broker: BrokerProcess, tmp_path: Path) -> None:
    bootstrap = f"127.0.0.1:{any_broker.port}"
    settings = {"kafkastore_topic": "schemas-of-two", "schema_registry_group_id": "two"}
    with (
        running(tmp_path / "a", bootstrap, **settings) as first,
        running(tmp_path / "b", bootstrap, **settings) as second,
    ):
        both = [first, second]
        for number in range(10):
            path = f"/subjects/s{number % 3}/versions"
            status, answer = both[number % 2].ask("POST", path, schema(number))
            assert (status, answer["id"]) == (200, number + 1)
        assert first.ask("GET", "/schemas")[1] == second.ask("GET", "/schemas")[1]
        primaries = [
            one for one in both if "odradek_registry_is_primary 1" in one.ask("GET", "/metrics")[1]
        ]
        assert len(primaries) == 1
        primaries[0].process.kill()
        primaries[0].process.wait()
        (other,) = (one for one in both if one is not primaries[0])
        assert other.register("t", schema(10)["schema"])["id"] == 11
        assert other.ask("DELETE", "/subjects/t") == (200, [1])
