"""Names that users bring from Kafka's distribution and its documents, and what they mean here.

A name is one of these:

    a command of ours              `bin/kafka-topics.sh` is `topics`
    an older name                  `kafka-preferred-replica-election.sh` is `leader-election`, with
                                   flags that the older name implies
    a class for `kafka-run-class`  `kafka.tools.DumpLogSegments` is `dump-log`; `java` takes one too
    a tool that is not here        one line says why, and what to type instead
    another program                the documents use it beside Kafka; one line says what to type
"""

from typing import Final

# Names of Kafka's scripts that are not `kafka-` followed by our name.
_OTHER_NAMES: Final = {
    "java": "run-class",
    "ksql": "sql",
    "ksql-cli": "sql",
    "ksql-server-start": "sql-server",
    "run-e2e-latency": "e2e-latency",
    "server-start": "broker",
    "zookeeper-server-start": "zookeeper",
}

# Older names, and the command and flags that replace them.
OLDER_NAMES: Final[dict[str, tuple[str, list[str]]]] = {
    "preferred-replica-election": (
        "leader-election",
        ["--election-type", "preferred", "--all-by-default"],
    ),
}

RUN_CLASS: Final = "run-class"

# The main classes of Kafka's tools, without their packages, which have changed over time.
_CLASSES: Final = {
    "AclCommand": "acls",
    "BrokerApiVersionsCommand": "broker-api-versions",
    "ClusterTool": "cluster",
    "ConfigCommand": "configs",
    "ConsoleConsumer": "console-consumer",
    "ConsoleProducer": "console-producer",
    "ConsumerGroupCommand": "consumer-groups",
    "ConsumerPerformance": "consumer-perf-test",
    "DelegationTokenCommand": "delegation-tokens",
    "DeleteRecordsCommand": "delete-records",
    "DumpLogSegments": "dump-log",
    "EndToEndLatency": "e2e-latency",
    "GetOffsetShell": "get-offsets",
    "GroupsCommand": "groups",
    "JmxTool": "jmx",
    "Kafka": "broker",
    "LeaderElectionCommand": "leader-election",
    "LogDirsCommand": "log-dirs",
    "PreferredReplicaLeaderElectionCommand": "preferred-replica-election",
    "ProducerPerformance": "producer-perf-test",
    "QuorumPeerMain": "zookeeper",
    "ReassignPartitionsCommand": "reassign-partitions",
    "ReplicaVerificationTool": "replica-verification",
    "StorageTool": "storage",
    "TopicCommand": "topics",
    "TransactionsCommand": "transactions",
    "VerifiableConsumer": "verifiable-consumer",
    "VerifiableProducer": "verifiable-producer",
    "ZkSecurityMigrator": "zookeeper-security-migration",
    "ZooKeeperMainWithTlsSupportForKafka": "zookeeper-shell",
    "ZooKeeperMain": "zookeeper-shell",
}

# Classes that are not here, and the line to type instead.
_OTHER_CLASSES: Final = {
    "ConsumerMain": "odradek archive --include TOPICS --to DIRECTORY --follow, in place of Secor",
    "ConsumerOffsetChecker": "odradek consumer-groups --describe --group GROUP",
    "ExportZkOffsets": "odradek consumer-groups --describe --group GROUP --json",
    "ImportZkOffsets": "odradek consumer-groups --reset-offsets --group GROUP --from-file FILE",
    "MirrorMaker": "odradek archive and odradek restore, which copy topics once",
    "StateChangeLogMerger": "sort -m broker-*/state-change.log",
    "UpdateOffsetsInZK": "odradek consumer-groups --reset-offsets --group GROUP --to-earliest",
    "VerifyConsumerRebalance": "odradek consumer-groups --describe --group GROUP --members",
}

# Tools of a Kafka distribution that make no sense here, and why.
NEEDLESS: Final = {
    "connect-plugin-path": "connectors are Python packages, and there is no directory of them:"
    " `odradek connect plugins` lists what a worker has",
    "metadata-shell": "metadata is in a store of nodes like ZooKeeper's, and"
    " `odradek zookeeper-shell DIR ls /` shows it, where DIR is the data directory of the brokers",
    "metadata-quorum": "there is no quorum of controllers: metadata lives in a store of its own,"
    " and `odradek cluster list-endpoints` shows which broker is the controller",
    "ksql-server-stop": "the SQL server runs in the foreground: press Ctrl-C where"
    " `odradek sql-server` runs, or stop its unit",
    "schema-registry-stop": "the schema registry runs in the foreground: press Ctrl-C where"
    " `odradek schema-registry-start` runs, or stop its unit",
}

_MIRROR: Final = (
    "`odradek archive` and `odradek restore` copy topics to another cluster, and `odradek pipeline"
    " run` copies them continuously"
)
_CERTIFICATES: Final = (
    "odradek certs create, which makes an authority and certificates; those of other programs"
    " work too: brokers and clients read PEM, PKCS12 and JKS files by Kafka's ssl.* names"
)

# Programs that the documents use beside Kafka's, and what to type here.
OTHER_PROGRAMS: Final = {
    "avro-tools": "odradek.schemas.avro.AvroCodec in Python, which takes the text of a schema and"
    " needs no generated classes",
    "confluent": "odradek local start",
    "flume-ng": "odradek connect-standalone WORKER.properties CONNECTOR.properties, which runs a"
    " source or a sink from a properties file",
    "curl": "odradek rest-start, which serves the REST proxy; then curl works",
    "jps": "odradek local status",
    "keytool": _CERTIFICATES,
    "ksql-datagen": "odradek producer-perf-test --topic NAME --num-records 1000 --record-size 100"
    " --throughput 10, which makes records",
    "openssl": _CERTIFICATES,
    "rest-stop": "Ctrl-C where odradek rest-start runs, or its process id with kill",
    "systemctl": "odradek local start, or odradek broker CONFIG as the command of a unit",
}

_UP: Final = "odradek up, or odradek local start for a broker in the background"
_STOP: Final = "Ctrl-C where `odradek up` runs, odradek local stop, or odradek server-stop"
_SEND: Final = "odradek console-producer --topic NAME"
_READ: Final = "odradek console-consumer --topic NAME --from-beginning"
_LIST: Final = "odradek topics --list, or odradek consumer-groups --list"
_CREATE: Final = "odradek topics --create --topic NAME"
_DELETE: Final = "odradek topics --delete --topic NAME"
_CONSOLE: Final = "odradek console, which serves pages for a browser"
# What people want to do, said as a command, and what to type.
VERBS: Final = {
    **dict.fromkeys(("start", "run", "serve", "server"), _UP),
    **dict.fromkeys(("stop", "down", "kill", "shutdown"), _STOP),
    "restart": "odradek local stop, and then odradek local start",
    **dict.fromkeys(("status", "ps", "health"), "odradek local status, or odradek doctor"),
    **dict.fromkeys(("produce", "producer", "send", "publish", "write"), _SEND),
    **dict.fromkeys(("consume", "consumer", "read", "tail", "subscribe"), _READ),
    **dict.fromkeys(("list", "ls", "show"), _LIST),
    **dict.fromkeys(("create", "create-topic", "new-topic"), _CREATE),
    **dict.fromkeys(("delete", "delete-topic", "remove-topic"), _DELETE),
    **dict.fromkeys(("describe", "describe-topic"), "odradek topics --describe --topic NAME"),
    **dict.fromkeys(("list-topics", "list-topic"), "odradek topics --list"),
    **dict.fromkeys(("ui", "control-center", "control-center-start"), _CONSOLE),
    "consumer-offset-checker": "odradek consumer-groups --describe --group ID",
    "lag": "odradek consumer-groups --describe --all-groups",
    "offsets": "odradek get-offsets --topic NAME",
    "config": "odradek configs --describe --topic NAME",
}

# Tools that a later version will have, and what to use until then ("" if there is nothing).
NOT_YET: Final = {
    "connect-mirror-maker": _MIRROR,
    "console-share-consumer": f"{_READ} --group NAME, in a consumer group",
    "features": "odradek broker-api-versions, which shows what brokers speak",
    "mirror-maker": _MIRROR,
    "share-groups": "odradek consumer-groups, for groups in which a partition has one consumer",
    "streams-application-reset": "odradek consumer-groups --reset-offsets --group APPLICATION_ID"
    " --topic INPUT_TOPIC --to-earliest --execute, and odradek topics --delete for the topics that"
    " the application made",
}


def resolve(word: str) -> str:
    """Returns the command for a name; Kafka's names such as `bin/kafka-topics.sh` work too."""
    name = word.rpartition("/")[2].removesuffix(".sh").removesuffix(".bat")
    name = name.removeprefix("kafka-") or name
    return _OTHER_NAMES.get(name, name)


def command_of_class(name: str) -> str | None:
    """Returns the command, perhaps by an older name, for a class of `kafka-run-class`."""
    return _CLASSES.get(_without_package(name))


def unknown_class(name: str) -> str:
    """Returns the error for a class that is none of our commands."""
    simple = _without_package(name)
    if simple in _OTHER_CLASSES:
        return f"{name} is not here; use: {_OTHER_CLASSES[simple]}"
    from odradek.config.spelling import did_you_mean

    near = did_you_mean(simple, list(_CLASSES))
    return f"there are no Java classes here, and no tool for {name}" + (
        near or "; odradek --help lists the tools"
    )


def _without_package(name: str) -> str:
    return name.rpartition(".")[2]
