"""The table of all commands, used by dispatch, help, completion and the reference page.

A command's module is its name with underscores, in the folder that the table gives. It offers
`add_arguments(parser)` and `run(arguments) -> int`. This module imports no tool, so listing the
commands is fast.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """The folder under `odradek.cli` that holds a command's module, and its line in the help."""

    folder: str
    summary: str


GROUPS: dict[str, dict[str, Command]] = {
    "Run a broker": {
        "up": Command(
            "running", "run a broker or a cluster here, in the foreground, with sensible defaults"
        ),
        "broker": Command("running", "run a broker from a server.properties file"),
        "local": Command("running", "start, stop, grow and look at a cluster in the background"),
        "logs": Command("running", "the logs of all brokers of this machine, merged by time"),
        "server-stop": Command("running", "stop the brokers of this machine, or of a directory"),
        "zookeeper": Command("running", "run a ZooKeeper server in the foreground"),
        "zookeeper-server-stop": Command(
            "running", "stop the ZooKeeper servers that odradek started on this machine"
        ),
    },
    "Run a service": {
        "schema-registry-start": Command(
            "registry", "run the schema registry from a properties file, on any Kafka"
        ),
        "connect": Command(
            "connect", "connectors of a worker: list, create, preview, pause, restart, logs, ..."
        ),
        "connect-standalone": Command(
            "connect", "run connectors in one process, each from a properties file"
        ),
        "connect-distributed": Command(
            "connect", "run a worker that shares connectors with others of its group"
        ),
        "rest-start": Command("services", "run the REST proxy, from kafka-rest.properties"),
        "sql-server": Command("services", "run the SQL server, from ksql-server.properties"),
        "sql": Command("services", "a shell for the SQL server: statements, queries, tables"),
        "sql-test": Command("services", "run SQL statements in memory and check what they make"),
        "console": Command("services", "run the web console, for any Kafka"),
    },
    "Topics and settings": {
        "topics": Command("topics", "create, list, describe, grow and delete topics"),
        "configs": Command("topics", "show and change settings of topics and brokers"),
        "client-metrics": Command("topics", "which metrics clients push to the brokers"),
        "get-offsets": Command("topics", "first, last or by-time offsets of partitions"),
        "delete-records": Command("topics", "delete records below an offset"),
    },
    "Schemas": {
        "schema": Command(
            "schemas",
            "list, get, register, check, compare and delete schemas; write Python classes of them",
        ),
        "avro-console-producer": Command("schemas", "send lines of JSON as Avro"),
        "avro-console-consumer": Command("schemas", "print Avro records as JSON"),
        "json-schema-console-producer": Command(
            "schemas", "send lines of JSON as JSON with a schema"
        ),
        "json-schema-console-consumer": Command(
            "schemas", "print JSON with a schema records as JSON"
        ),
        "protobuf-console-producer": Command("schemas", "send lines of JSON as Protobuf"),
        "protobuf-console-consumer": Command("schemas", "print Protobuf records as JSON"),
    },
    "Security": {
        "acls": Command("access", "list, add and remove ACLs; explain who may do what, and why"),
        "roles": Command("access", "grant, revoke and list roles, and what each permits"),
        "delegation-tokens": Command(
            "access", "create, list, renew and end tokens by which clients log in for a time"
        ),
        "certs": Command("access", "create, renew and show certificates of brokers and clients"),
        "storage": Command(
            "cluster", "prepare a metadata store, with users, before the first start"
        ),
        "keys": Command("access", "the keys of encrypted topics: create, rotate, show, shred"),
        "zookeeper-security-migration": Command(
            "cluster", "give the nodes in ZooKeeper to the brokers alone, or open them again"
        ),
        "secrets": Command("access", "keep passwords out of properties files; encrypt values"),
    },
    "Groups and transactions": {
        "consumer-groups": Command(
            "groups", "list, describe, reset and delete consumer groups and their offsets"
        ),
        "groups": Command("groups", "list groups of every type"),
        "lag": Command(
            "lag", "whether groups and Spark queries keep up, without thresholds, as Burrow"
        ),
        "transactions": Command(
            "transactions", "list, describe and abort transactions, including hanging ones"
        ),
    },
    "Records": {
        "console-producer": Command("records", "send lines from standard input to a topic"),
        "console-consumer": Command("records", "print the records of a topic"),
        "get": Command("records", "print the newest value of a key, without reading the topic"),
        "archive": Command("spark", "archive topics as Parquet files, each record exactly once"),
        "restore": Command("spark", "restore archived records into a topic"),
    },
    "Spark": {
        "pipeline": Command("spark", "run Spark queries on topics: run, list, status, stop"),
        "recipe": Command(
            "spark", "complete examples, with Spark (clicks, taxis) and without (selfies, audit)"
        ),
    },
    "Cluster": {
        "cluster": Command(
            "cluster", "the cluster's id and brokers; move all replicas away from a broker"
        ),
        "leader-election": Command(
            "replicas", "elect the preferred leader of partitions, or any live replica"
        ),
        "reassign-partitions": Command(
            "replicas", "move partitions to other brokers, change the replication factor"
        ),
        "balance": Command(
            "balance", "spread replicas, leaders and load evenly; empty or demote a broker"
        ),
        "replica-verification": Command(
            "replicas", "compare the replicas of partitions, record by record"
        ),
        "top": Command("top", "a live page of the cluster: brokers, topics, partitions, groups"),
        "doctor": Command("doctor", "check this machine and the connection to the brokers"),
        "sizing": Command("sizing", "how much disk, memory and network a load needs, and why"),
    },
    "Look inside": {
        "broker-api-versions": Command("cluster", "the API versions that each broker supports"),
        "jmx": Command("cluster", "the figures of a broker by the names of Kafka's MBeans"),
        "log-dirs": Command("topics", "disk used by partitions on each broker"),
        "dump-log": Command("dump_log", "print and verify log segments and indexes on disk"),
        "zookeeper-shell": Command(
            "cluster", "look at the nodes of the metadata store, ZooKeeper or our own"
        ),
    },
    "Measure and verify": {
        "producer-perf-test": Command("perf", "how fast records can be sent"),
        "consumer-perf-test": Command("perf", "how fast records can be read"),
        "e2e-latency": Command("perf", "time from sending a record to reading it"),
        "verifiable-producer": Command("records", "send numbered records, report each as JSON"),
        "verifiable-consumer": Command("records", "read records, report offsets as JSON"),
    },
    "Shell": {
        "completion": Command("", "print the completion script for bash, zsh or fish"),
        "shims": Command("", "write scripts with Kafka's names, such as kafka-topics.sh"),
    },
}

COMMANDS: dict[str, Command] = {
    name: command for commands in GROUPS.values() for name, command in commands.items()
}
SUMMARIES: dict[str, str] = {name: command.summary for name, command in COMMANDS.items()}

# Commands that a Kafka distribution has as well, by the same name.
KAFKAS = tuple(
    name
    for name in COMMANDS
    if name
    not in {
        "archive",
        "balance",
        "broker",
        "certs",
        "completion",
        "connect",
        "connect-distributed",
        "connect-standalone",
        "doctor",
        "get",
        "keys",
        "lag",
        "local",
        "logs",
        "pipeline",
        "recipe",
        "restore",
        "roles",
        "schema",
        "schema-registry-start",
        "secrets",
        "shims",
        "sizing",
        "top",
        "up",
        "zookeeper",
    }
)


def module_name(command: str) -> str:
    """Returns the name of a command's module, which is imported when the command is used."""
    folder = COMMANDS[command].folder
    return ".".join(filter(None, ("odradek.cli", folder, command.replace("-", "_"))))
