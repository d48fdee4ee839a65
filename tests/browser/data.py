"""What the cluster of the browser tests has in it."""

import json

import cbor2
import msgspec

from odradek.client.sync import Admin, Consumer, NewTopic, Producer
from odradek.schemas.registry_client import RegistryClient
from odradek.testing.cluster import Cluster
from odradek.testing.registry import Registry

ORDERS = 300
HOSTILE = (
    "<script>document.body.dataset.hacked=1</script>",
    '"><img src=x onerror="document.body.dataset.hacked=1">',
    "'-document.body.dataset.hacked=1-'",
    "{{7*7}}${7*7}<svg/onload=document.body.dataset.hacked=1>",
    "</textarea></pre><a href=javascript:document.body.dataset.hacked=1>x</a>",
    "\u202ehtml\u0000<b onmouseover=alert(1)>\ud7ff",
)
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": "amount", "type": "long"}, {"name": "currency", "type": "string"}],
}


def fill(cluster: Cluster, registry: Registry) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics(
            [
                NewTopic("orders", 3, 2, configs={"retention.ms": "604800000"}),
                NewTopic("customers", 1, 2, configs={"cleanup.policy": "compact"}),
                NewTopic("payments", 1, 2),
                NewTopic("formats", 1, 2),
                NewTopic("hostile", 1, 2),
                NewTopic("letters", 1, 2),
                NewTopic("lonely", assignments={0: [2], 1: [1]}),
            ]
        ).raise_for_errors()
    with RegistryClient(registry.url) as client:
        schema_id = client.register("payments-value", "AVRO", json.dumps(SCHEMA))
        grown = dict(SCHEMA)
        grown["fields"] = [*SCHEMA["fields"], {"name": "note", "type": "string", "default": ""}]
        client.register("payments-value", "AVRO", json.dumps(grown))
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in range(ORDERS):
            value = {"number": number, "customer": {"country": ("NL", "DE")[number % 2]}}
            producer.send(
                "orders", json.dumps(value).encode(), f"order-{number}".encode(),
                headers=[("trace", f"t{number}".encode())],
            )  # fmt: skip
        person = {"name": "Ada", "contact": {"email": "ada@example.org"}}
        producer.send(
            "customers", json.dumps(person).encode(), b"1", headers=[("token", b"secret-token")]
        )
        framed = b"\x00" + schema_id.to_bytes(4, "big") + b"\xf6\x01" + b"\x06EUR"
        producer.send("payments", framed, b"p1")
        for name, content in (
            ("msgpack", msgspec.msgpack.encode({"kind": "packed"})),
            ("cbor", cbor2.dumps({"kind": "concise"})),
            ("bytes", bytes(range(256))),
            ("text", "žluťoučký kůň".encode()),
            ("none", None),
        ):
            producer.send("formats", content, name.encode())
        for text in HOSTILE:
            content = text.encode("utf-8", "surrogatepass")
            producer.send(
                "hostile", content, content,
                headers=[(text[:40], content), ("__connect.errors.exception.message", content)],
            )  # fmt: skip
            producer.send("hostile", json.dumps({text: text}).encode(), b"json")
        for key, topic in (("good", "formats"), ("lost", "gone"), ("secret", "payments")):
            headers = [
                ("trace", key.encode()),
                ("__connect.errors.topic", topic.encode()),
                ("__connect.errors.partition", b"0"),
                ("__connect.errors.exception.message", f"{key} failed".encode()),
            ]
            producer.send("letters", b"a letter", key.encode(), headers=headers)
        producer.flush()
    _read(cluster, "billing", "orders")
    _read(cluster, HOSTILE[0], "hostile")


def _read(cluster: Cluster, group: str, topic: str) -> None:
    """Lets a group read everything, and leave."""
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap, group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        while not any(consumer.poll(1000).values()):
            pass
        consumer.seek_to_end()
        consumer.commit({one: consumer.position(one) for one in consumer.assignment()})
