"""Which commands there are: the one table behind dispatch, help, completion and the reference.

A command's module is its name with underscores. Each module offers `add_arguments(parser)` and
`run(arguments) -> int`. Nothing here imports a tool, so listing commands costs nothing.
"""

GROUPS: dict[str, dict[str, str]] = {
    "Run a broker": {
        "up": "run a broker or a cluster here, in the foreground, with sensible defaults",
        "broker": "run a broker from a server.properties file",
        "local": "start, stop and look at a cluster in the background",
        "zookeeper": "run a ZooKeeper server in the foreground",
    },
    "Topics and settings": {
        "topics": "create, list, describe, grow and delete topics",
        "configs": "show and change settings of topics and brokers",
        "get-offsets": "first, last or by-time offsets of partitions",
        "delete-records": "delete records below an offset",
        "acls": "list, add and remove access rules: who may do what",
    },
    "Groups and transactions": {
        "consumer-groups": "list, describe, reset and delete consumer groups and their offsets",
        "groups": "list groups of every type",
        "transactions": "list, describe and end transactions, also hanging ones",
    },
    "Records": {
        "console-producer": "send lines from standard input to a topic",
        "console-consumer": "print the records of a topic",
        "get": "print the newest value of a key, without reading the topic",
        "archive": "topics to Parquet files by date and hour, each record exactly once",
        "restore": "archived records back into a topic, as they were",
    },
    "Spark": {
        "pipeline": "run Spark queries on topics: run, list, status, stop",
        "recipe": "whole examples in a minute: sensors, clicks, taxis, lambda, kappa",
    },
    "Cluster": {
        "cluster": "the cluster's id, its brokers' addresses; empty a broker",
        "leader-election": "give leadership back to the preferred replicas, or to any",
        "reassign-partitions": "move partitions to other brokers, change the number of copies",
        "replica-verification": "compare the copies of partitions, record by record",
        "doctor": "check this machine and the way to the brokers",
        "sizing": "how much disk, memory and network a load needs, and why",
    },
    "Look inside": {
        "broker-api-versions": "the protocol versions each broker speaks",
        "log-dirs": "disk used by partitions on each broker",
        "dump-log": "print and verify log segments and indexes on disk",
    },
    "Measure and verify": {
        "producer-perf-test": "how fast records can be sent",
        "consumer-perf-test": "how fast records can be read",
        "e2e-latency": "time from sending a record to reading it",
        "verifiable-producer": "send numbered records, report each as JSON",
        "verifiable-consumer": "read records, report offsets as JSON",
    },
    "Shell": {
        "completion": "print the completion script for bash, zsh or fish",
    },
}

SUMMARIES: dict[str, str] = {
    name: summary for commands in GROUPS.values() for name, summary in commands.items()
}

# Names of Kafka's scripts that are not simply `kafka-` and our name.
_OTHER_NAMES = {
    "server-start": "broker",
    "run-e2e-latency": "e2e-latency",
    "zookeeper-server-start": "zookeeper",
}

# Names that a newer tool has taken over, and what to say to it in their place.
OLDER_NAMES: dict[str, tuple[str, list[str]]] = {
    "preferred-replica-election": (
        "leader-election",
        ["--election-type", "preferred", "--all-by-default"],
    ),
}

# Tools of a Kafka distribution that have nothing to do here.
NEEDLESS = {
    "metadata-quorum": "there is no quorum of controllers: metadata lives in a store of its own,"
    " and `odradek cluster list-endpoints` shows which broker is the controller",
    "storage": "directories need no formatting; `odradek up` and `odradek broker` make them",
}

# Tools of a Kafka distribution that a later version brings: known, so the answer can say so.
NOT_YET = frozenset(
    {
        "client-metrics",
        "console-share-consumer",
        "delegation-tokens",
        "features",
        "share-groups",
        "streams-application-reset",
    }
)


def resolve(typed: str) -> str:
    """The command meant by a name, Kafka's spellings (`kafka-topics.sh`) included."""
    name = typed.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return _OTHER_NAMES.get(name, name)


def module_name(command: str) -> str:
    return "odradek.cli." + command.replace("-", "_")
