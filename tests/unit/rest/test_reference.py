"""The reference page is the one that the code writes, and the shipped file is obeyed."""

from pathlib import Path

from odradek.config.properties import parse_properties
from odradek.rest.reference import endpoints, reference
from odradek.rest.settings import RestSettings

ROOT = Path(__file__).parents[3]


async def test_the_reference_is_up_to_date() -> None:
    page = (ROOT / "docs/reference/rest.md").read_text()
    assert page == reference(), "run: python -m odradek.rest.reference docs/reference/rest.md"


async def test_everything_of_the_surface_is_there() -> None:
    paths = {(one.method, one.path.replace(":int}", "}")) for one in endpoints()}
    instance = "/consumers/{group}/instances/{instance}"
    cluster = "/v3/clusters/{cluster_id}"
    topic = f"{cluster}/topics/{{topic_name}}"
    for method, path in [
        ("GET", "/brokers"), ("POST", "/topics/{topic}"), ("GET", "/topics/{topic}/partitions"),
        ("POST", "/topics/{topic}/partitions/{partition}"), ("DELETE", instance),
        ("GET", f"{instance}/records"), ("POST", f"{instance}/positions/beginning"),
        ("POST", f"{cluster}/acls:batch"), ("POST", f"{cluster}/broker-configs:alter"),
        ("GET", f"{cluster}/brokers/-/configs"), ("POST", f"{cluster}/topics/-/configs:alter"),
        ("GET", f"{cluster}/topics/-/partitions/-/reassignment"), ("PATCH", topic),
        ("GET", f"{topic}/partitions/{{partition_id}}/replicas/{{broker_id}}"),
        ("POST", f"{topic}/records:batch"), ("GET", f"{topic}/records:stream"),
    ]:  # fmt: skip
        assert (method, path) in paths, path


def test_the_shipped_file_says_the_defaults() -> None:
    given = parse_properties((ROOT / "config/kafka-rest.properties").read_text())
    settings = RestSettings.from_file(given)
    assert settings.notes == ()
    assert settings.url == "http://127.0.0.1:8082"
    # What is commented out is a setting that there is, with its default.
    lines = (ROOT / "config/kafka-rest.properties").read_text().splitlines()
    commented = "\n".join(line[1:] for line in lines if line[:1] == "#" and "=" in line[:50])
    shown = {name: value for name, value in parse_properties(commented).items() if " " not in name}
    assert len(shown) > 5
    declared = RestSettings.declared()
    for name, value in shown.items():
        if name in declared:
            assert declared[name].read(value) == declared[name].default, name
