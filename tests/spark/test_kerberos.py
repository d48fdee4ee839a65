"""Spark at brokers that want Kerberos: the properties of clients, with `kafka.` in front."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.client.sync import Admin, NewTopic, Producer
from odradek.testing import Cluster
from tests.kdc import Kdc, jaas, tool
from tests.needs import need
from tests.spark.conftest import java

pytestmark = pytest.mark.xdist_group("spark")

LISTENER = "listener.name.plaintext."
# How long a ticket in the cache is good.
LIFETIME_S = 20


def test_a_keytab_and_a_ticket_cache(tmp_path: Path) -> None:
    need(java)
    kdc = need(lambda: Kdc(tmp_path / "kdc"))
    with kdc.running(), kdc.used_here():
        kdc.keytab("kafka", "kafka/localhost")
        ada = kdc.keytab("ada", "ada")
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            f"{LISTENER}sasl.enabled.mechanisms": "GSSAPI",
            f"{LISTENER}gssapi.sasl.jaas.config": jaas(
                f"{kdc.directory}/kafka.keytab", "kafka/localhost"
            ),
            # Spark's processes log in again while they wait.
            f"{LISTENER}gssapi.connections.max.reauth.ms": "2000",
        }
        with Cluster(settings=settings, host="localhost") as cluster:
            client = {
                "bootstrap.servers": cluster.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.kerberos.service.name": "kafka",
                "sasl.jaas.config": jaas(ada, "ada"),
            }
            wanted = [f"value {index}" for index in range(50)]
            with Admin(client) as admin, Producer(client) as producer:
                admin.create_topics([NewTopic(name, partitions=2) for name in ("source", "sink")])
                for future in [producer.send("source", value.encode()) for value in wanted]:
                    future.result(timeout=30)
            cache = f"FILE:{tmp_path}/ccache"
            by_cache = client | {
                "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required"
                f' useTicketCache=true ticketCache="{cache}";'
            }
            life = ("-l", f"{LIFETIME_S}s", "-r", "1h")
            kinit = [tool("kinit"), "-k", "-t", ada, "-c", cache, *life, "ada"]
            words = [
                *map(json.dumps, (with_prefix(client), with_prefix(by_cache), kinit)),
                *("source", "sink", str(tmp_path), str(LIFETIME_S + 3)),
            ]
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.kerberos_driver", *words],
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                capture_output=True,
                text=True,
                check=False,
                timeout=200,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            first, again = json.loads(done.stdout)
            assert first == sorted(wanted)
            assert again == sorted(value.upper() for value in wanted)


def with_prefix(properties: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in properties.items()}
